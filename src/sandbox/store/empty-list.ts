/** The empty list that all rows share. A million separate empty lists would take as much memory as the rows. */
export const emptyList: readonly never[] = Object.freeze([]);
