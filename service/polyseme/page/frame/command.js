/** The command that gives the same answer in a shell. */

import { addressOf, key } from "./service.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** curl for a question; the key is named, not shown. */
export function curl(path, body) {
  const parts = [`curl -s ${quotedWhereNeeded(addressOf(path))}`];
  if (key.get()) parts.push(`-H "Authorization: Bearer $POLYSEME_KEY"`);
  if (body) {
    parts.push("-H 'Content-Type: application/json'");
    parts.push(`-d ${quoted(JSON.stringify(body))}`);
  }
  return parts.join(" \\\n  ");
}

const quotedWhereNeeded = (url) => (/^[\w:/.,%-]+$/.test(url) ? url : quoted(url));
