"""Audits the packages of the image, as its lock file pins them: `make check` ends here.

A weakness that an advisory names fails the check, and so does an audit of nothing: behind some
package indexes no advisory database can be reached, and `AUDIT=skip make check` passes without one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "containers" / "requirements.txt"


def report() -> dict[str, Any]:
    """What pip-audit says, as JSON; nothing of any package where it reaches no database."""
    options = ("--format=json", "--progress-spinner=off", "--require-hashes", "--disable-pip")
    done = subprocess.run(  # noqa: S603 - the program beside this Python
        [Path(sys.executable).with_name("pip-audit"), *options, "--requirement", LOCK],
        capture_output=True,
        text=True,
        check=False,
    )
    return read(done.stdout, done.stderr)


def read(output: str, errors: str) -> dict[str, Any]:
    """The report that pip-audit wrote.

    Raises:
        SystemExit: it wrote none, for another reason than a network that is not there
    """
    try:
        said: dict[str, Any] = json.loads(output)
    except ValueError:
        if not any(why in errors for why in ("ConnectionError", "Timeout", "HTTPError")):
            raise SystemExit(f"audit: pip-audit failed: {errors.strip()[-500:]}") from None
        return {"dependencies": []}
    return said


def verdict(said: dict[str, Any]) -> tuple[str, int]:
    """One sentence, or one for each weakness, and the exit code."""
    packages = said["dependencies"]
    weak = [_weakness(one, fault) for one in packages for fault in one.get("vulns", ())]
    missed = [one["name"] for one in packages if "skip_reason" in one]
    audited = len(packages) - len(missed)
    if weak:
        return "\n".join(weak), 1
    if not audited:
        reason = "audit: nothing was audited, since no database of advisories can be reached"
        if os.environ.get("AUDIT") == "skip":
            return f"{reason}; AUDIT=skip accepts that.", 0
        return f"{reason}; AUDIT=skip accepts that for once.", 1
    rest = f"; not audited: {', '.join(missed)}" if missed else ""
    return f"audit: {audited} packages have no known weakness{rest}.", 0


def _weakness(package: dict[str, Any], fault: dict[str, Any]) -> str:
    versions = ", ".join(fault["fix_versions"])
    mended = f"take {versions}" if versions else "no version mends it yet"
    return f"audit: {package['name']} {package['version']} has {fault['id']}; {mended}."


if __name__ == "__main__":
    sentence, code = verdict(report())
    sys.stderr.write(f"{sentence}\n")
    sys.exit(code)
