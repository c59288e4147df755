import { readFileSync, statSync } from 'node:fs';
import { parseDocument } from 'yaml';
import type { z } from 'zod';

const maxBytes = 1 << 20;

/** The error of a file that a user wrote. The message names the file and the member, and what is wrong. */
export class DocumentError extends Error {
  constructor(file: string, problems: readonly string[], options?: ErrorOptions) {
    super([`${file} cannot be used:`, ...problems].join(problems.length > 1 ? '\n  ' : ' '), options);
    this.name = 'DocumentError';
  }
}

/**
 * Reads a YAML or JSON file of at most 1 MB.
 * @param namePlace returns the words for the place of a problem; default: the names of the members, with dots
 * @throws DocumentError if the file cannot be read, or if it does not match the schema
 */
export function readDocument<T extends z.ZodType>(
  file: string,
  schema: T,
  namePlace: (path: readonly PropertyKey[]) => string = (path) => path.map(String).join('.'),
): z.output<T> {
  const parsed = schema.safeParse(parseText(file, readText(file)));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.slice(0, 10).map(({ path, message }) => {
    const place = namePlace(path);
    return place === '' ? message : `${place}: ${message}`;
  });
  throw new DocumentError(file, problems);
}

function readText(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > maxBytes) throw new DocumentError(file, [`it has ${size} bytes; the limit is ${maxBytes}`]);
    return readFileSync(file, 'utf8');
  } catch (cause) {
    if (cause instanceof DocumentError) throw cause;
    throw new DocumentError(file, [cause instanceof Error ? cause.message : String(cause)], { cause });
  }
}

function parseText(file: string, text: string): unknown {
  const document = parseDocument(text);
  const [first] = document.errors;
  if (first !== undefined) throw new DocumentError(file, [first.message]);
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (cause) {
    // Aliases that multiply without bound.
    throw new DocumentError(file, [cause instanceof Error ? cause.message : String(cause)], { cause });
  }
}
