/** The empty list of every row that has none: a million lists of its own would take as much memory as the rows. */
export const none: readonly never[] = Object.freeze([]);
