import { readFileSync, statSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { listsSchema } from './store/service-lists.ts';

/** A file of service lists: lists for all clients, and lists of single clients in `clients`. */
export const chosenListsSchema = listsSchema.extend({
  clients: z.record(z.string(), listsSchema).optional(),
});
export type ChosenLists = z.infer<typeof chosenListsSchema>;

/**
 * Reads a file of service lists.
 * @param clients the clients of the sandbox
 * @throws DocumentError if the file is wrong, or if it names another client
 */
export function readListsFile(file: string, clients: readonly string[]): ChosenLists {
  const lists = readDocument(file, chosenListsSchema);
  for (const name of Object.keys(lists.clients ?? {}))
    if (!clients.includes(name))
      throw new DocumentError(file, [`clients.${name}: the sandbox has only the clients ${clients.join(', ')}`]);
  return lists;
}

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
 * @throws DocumentError if the file cannot be read, or if it does not match the schema
 */
function readDocument<T extends z.ZodType>(file: string, schema: T): z.output<T> {
  const parsed = schema.safeParse(parseText(file, readText(file)));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.slice(0, 10).map(({ path, message }) => {
    const place = path.map(String).join('.');
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
