/** Where the members of a JSON text are, so that a problem can be shown at its line. */

import type { PayloadProblem } from '../../push/kind.ts';

/** Maximum characters of a text that is searched, and of all paths in it: an ERP wrote it. */
const maxTextLength = 200_000;
const maxPathCharacters = 1_000_000;

/**
 * A part of a JSON text: a line break, a bracket, a comma, a colon, a text or another value. A text
 * may lack its end: then it is read once, not from each of its quotes.
 */
const tokens = /\n|[[\]{},:]|"(?:[^"\\\n]|\\.)*"?|[^\s[\]{},:"]+/g;

/** An object or a list that is being read. */
interface OpenValue {
  /** The names and places that lead to it, as JSON, each after a slash. */
  readonly path: string;
  /** Place of the present entry of a list; null for an object. */
  index: number | null;
}

/** Finds the line, from 1, on which each member of a JSON text begins, by its path. */
function findLines(text: string): ReadonlyMap<string, number> {
  const lines = new Map<string, number>();
  const open: OpenValue[] = [];
  let [line, path, before] = [1, '', ''];
  let pathCharacters = 0;

  const note = (inner: OpenValue, part: string | number) => {
    path = `${inner.path}/${part}`;
    pathCharacters += path.length;
    if (!lines.has(path)) lines.set(path, line);
  };

  for (const [token] of text.matchAll(tokens)) {
    const inner = open.at(-1);
    if (pathCharacters > maxPathCharacters) return lines;
    if (token === '\n') {
      line++;
      continue;
    }

    const begins = before === '[' || before === ',';
    if (inner?.index === null && token.startsWith('"') && before !== ':') note(inner, token);
    else if (inner !== undefined && inner.index !== null && begins && token !== ']')
      note(inner, inner.index);

    if (token === '{') open.push({ path, index: null });
    else if (token === '[') open.push({ path, index: 0 });
    else if (token === '}' || token === ']') open.pop();
    else if (token === ',' && inner !== undefined && inner.index !== null) inner.index++;
    before = token;
  }
  return lines;
}

/** A problem of a payload, and the line that it is at; null if it is about the whole. */
export interface PlacedProblem {
  readonly text: string;
  readonly line: number | null;
}

/** Finds the line of each problem. A missing member is at the line of what it is missing in. */
export function placeProblems(text: string, problems: readonly PayloadProblem[]): PlacedProblem[] {
  const lines = text.length > maxTextLength ? new Map<string, number>() : findLines(text);

  return problems.map(({ path, text: words }) => {
    let [line, key]: [number | null, string] = [null, ''];
    for (const part of path) {
      key += `/${JSON.stringify(part)}`;
      const found = lines.get(key);
      if (found === undefined) break;
      line = found;
    }
    return { text: words, line };
  });
}
