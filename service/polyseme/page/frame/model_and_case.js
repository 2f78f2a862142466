/** How a sentence or a word is read: by which model, and with its upper and lower case how. */

/** `{model, case}` of a view's state, as far as they differ from what the service does by default. */
export function modelAndCase(state) {
  return {
    ...(state.model && { model: state.model }),
    ...(state.case && state.case !== "auto" && { case: state.case }),
  };
}
