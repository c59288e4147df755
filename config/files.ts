import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { type Operation, type OperationName, type Operations, operations } from './operations.ts';

/** One shop's credentials at the service (interface.md, Authentication: issued per client). */
export interface WarehouseClient {
  readonly key: string;
  readonly baseUrl: URL;
  readonly username: string;
  readonly password: string;
  /** IANA zone in which the service's zone-less times are read. */
  readonly timeZone: string;
}

/**
 * Fingerprint of the account that a client's rows come from, base URL and username: cursors and gates of one account mean
 * nothing to another. It tells nothing of either.
 */
export function identityOf({ baseUrl, username }: Pick<WarehouseClient, 'baseUrl' | 'username'>): string {
  const address = baseUrl.href.replace(/(?<!\/)\/+$/, '');
  return createHash('sha256')
    .update(JSON.stringify([address, username]))
    .digest('hex');
}

/** The zone of zone-less times is not shown in the interface description; this is an assumption. */
export const defaultTimeZone = 'Europe/Amsterdam';

export const baseUrlSchema = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : null;
  const problem =
    url === null || !['http:', 'https:'].includes(url.protocol)
      ? 'must be an http or https address'
      : url.username || url.password || url.search || url.hash
        ? 'must hold no credentials, query or fragment'
        : null;
  if (problem === null && url !== null) return url;
  context.addIssue({ code: 'custom', message: problem ?? 'must be an address' });
  return z.NEVER;
});

export const timeZoneSchema = z.string().refine(
  (zone) => {
    try {
      return new Intl.DateTimeFormat('en', { timeZone: zone }).format() !== '';
    } catch (error) {
      if (error instanceof RangeError) return false;
      throw error;
    }
  },
  { message: 'is no time zone; use an IANA name such as Europe/Amsterdam' },
);

const clientFileSchema = z
  .array(
    z.strictObject({
      key: z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, 'must match [a-z][a-z0-9_-]{0,31}'),
      baseUrl: baseUrlSchema,
      username: z.string().min(1),
      password: z.string().min(1).optional(),
      passwordFile: z.string().min(1).optional(),
      timeZone: timeZoneSchema.default(defaultTimeZone),
    }),
  )
  .min(1, 'must name at least one client');

/**
 * Reads a secret from a file; one trailing newline is not part of it.
 * @throws Error where it cannot be read or is empty; its message never holds the content
 */
export function readSecretFile(path: string): string {
  const secret = readFileSync(path, 'utf8').replace(/\r?\n$/, '');
  if (secret === '') throw new Error('it is empty');
  return secret;
}

/** Reads WAREHOUSE_CLIENTS_FILE. Every problem is pushed as one line; what is returned counts only when there are none. */
export function readClientsFile(path: string, problems: string[]): WarehouseClient[] {
  const parsed = parseJsonFile('WAREHOUSE_CLIENTS_FILE', path, clientFileSchema, problems) ?? [];
  return parsed.map(({ password, passwordFile, ...client }) => {
    if ((password === undefined) === (passwordFile === undefined)) {
      problems.push(`WAREHOUSE_CLIENTS_FILE: client ${client.key}: give either password or passwordFile`);
      return { ...client, password: '' };
    }
    return { ...client, password: password ?? secretOrProblem(client.key, passwordFile ?? '', problems) };
  });
}

function secretOrProblem(key: string, path: string, problems: string[]): string {
  try {
    return readSecretFile(path);
  } catch (error) {
    problems.push(`WAREHOUSE_CLIENTS_FILE: client ${key}: passwordFile cannot be read: ${reasonOf(error)}`);
    return '';
  }
}

/** Problems of clients taken together: doubled keys, and two keys for one account (their cursors would be told apart wrongly). */
export function clientSetProblems(clients: readonly WarehouseClient[]): string[] {
  const problems: string[] = [];
  const keys = new Set<string>();
  const accounts = new Map<string, string>();
  for (const client of clients) {
    if (keys.has(client.key)) problems.push(`WAREHOUSE_CLIENTS_FILE: client ${client.key} is named twice`);
    keys.add(client.key);
    const account = identityOf(client);
    const other = accounts.get(account);
    if (other !== undefined && other !== client.key) {
      problems.push(
        `WAREHOUSE_CLIENTS_FILE: clients ${other} and ${client.key} have the same base URL and username; keep one`,
      );
    }
    accounts.set(account, client.key);
  }
  return problems;
}

/** Reads WAREHOUSE_OPERATIONS_FILE over the built-in table. */
export function readOperationsFile(file: string, problems: string[]): Operations {
  const override = z.strictObject({
    method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
    path: z.string().regex(/^\/[^?#]*$/, 'must begin with / and hold no query'),
    included: z.enum(['inside', 'top']).optional(),
    documented: z.boolean().optional(),
  });
  const overrides = parseJsonFile('WAREHOUSE_OPERATIONS_FILE', file, z.record(z.string(), override), problems) ?? {};
  const merged: Record<OperationName, Operation> = { ...operations };
  for (const [name, operation] of Object.entries(overrides)) {
    const own: Operation | undefined = Object.hasOwn(operations, name) ? operations[name as OperationName] : undefined;
    const { method, path, included } = operation;
    const documented = operation.documented ?? (own?.method === method && own.path === path && own.documented);
    const place = included === undefined ? {} : { included };
    if (own !== undefined) merged[name as OperationName] = { method, path, documented, ...place };
    else problems.push(`WAREHOUSE_OPERATIONS_FILE: ${name} is no operation; their names are in config/operations.ts`);
  }
  return merged;
}

function parseJsonFile<T>(variable: string, path: string, schema: z.ZodType<T>, problems: string[]): T | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    // A JSON.parse message quotes the text it stumbled over, which may be a password.
    const reason = error instanceof SyntaxError ? 'is not valid JSON' : `cannot be read: ${reasonOf(error)}`;
    problems.push(`${variable}: ${path} ${reason}`);
    return undefined;
  }
  const result = schema.safeParse(parsed);
  if (result.success) return result.data;
  for (const issue of result.error.issues) problems.push(`${variable}: ${issue.path.join('.')}: ${issue.message}`);
  return undefined;
}

/** Why a file could not be read, in a word. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? String(error.code) : error.message;
}
