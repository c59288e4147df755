import { createHash } from 'node:crypto';
import { z } from 'zod';
import { describeFileError, describeIssue } from './config-error.ts';
import { type Operation, type OperationName, type Operations, operations } from './operations.ts';
import { entrySchema, findSwitchProblems } from './switches.ts';
import { readSecretFile, readTextFile } from './text-file.ts';

/** One client of the service, with its account and credentials (docs/interface.md, 3.1 Rules). */
export interface WarehouseClient {
  readonly key: string;
  readonly baseUrl: URL;
  readonly username: string;
  readonly password: string;
  /** IANA zone in which times of the service without a zone designator are read. */
  readonly timeZone: string;
}

/**
 * Computes the identity of a client: the fingerprint of its account (base URL and user name).
 * Cursors and gates of one account are not valid for another account. The fingerprint reveals
 * neither the base URL nor the user name.
 */
export function toIdentity({
  baseUrl,
  username,
}: Pick<WarehouseClient, 'baseUrl' | 'username'>): string {
  return createHash('sha256')
    .update(JSON.stringify([toCanonicalAddress(baseUrl), username]))
    .digest('hex');
}

/**
 * Returns a base URL in the one form that all spellings of it share: host and path in lower case,
 * without trailing dots and slashes, and one name for this machine. URL itself leaves out the
 * default port.
 */
function toCanonicalAddress({ protocol, hostname, port, pathname, search }: URL): string {
  const host = hostname.replace(/(?<!\.)\.+$/, '');
  const name = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host) ? 'localhost' : host;
  const path = pathname.toLowerCase().replace(/(?<!\/)\/+$/, '');
  return `${protocol}//${name}:${port}${path}${search}`;
}

/** The assumed zone of times without a zone designator (docs/interface.md, 2.6 Not shown). */
export const defaultTimeZone = 'Europe/Amsterdam';

export const baseUrlSchema = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : null;

  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    context.addIssue('must be an http or https address');
    return z.NEVER;
  }

  if (url.username || url.password || url.search || url.hash) {
    context.addIssue('must not contain credentials, a query or a fragment');
    return z.NEVER;
  }

  return url;
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
  { message: 'is not a time zone; use an IANA name such as Europe/Amsterdam' },
);

const notBlank = z.string().refine((text) => text.trim() !== '', 'must not be blank');

const clientFileSchema = z
  .array(
    z.strictObject({
      key: z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, 'must match [a-z][a-z0-9_-]{0,31}'),
      baseUrl: baseUrlSchema,
      username: notBlank,
      password: notBlank.optional(),
      passwordFile: z.string().min(1).optional(),
      timeZone: timeZoneSchema.default(defaultTimeZone),
    }),
  )
  .min(1, 'must name at least one client');

/**
 * Reads WAREHOUSE_CLIENTS_FILE. Adds one line per problem to `problems`; the result is valid only
 * if it adds none.
 */
export function readClientsFile(path: string, problems: string[]): WarehouseClient[] {
  const parsed = parseJsonFile('WAREHOUSE_CLIENTS_FILE', path, clientFileSchema, problems) ?? [];
  const accounts = new Map<string, string>();

  return parsed.map(({ password = '', passwordFile, ...client }, index) => {
    const name = `client ${client.key}`;
    const addProblem = (problem: string) => problems.push(`WAREHOUSE_CLIENTS_FILE: ${problem}`);

    if (parsed.findIndex(({ key }) => key === client.key) < index)
      addProblem(`${name} is named twice`);

    const account = toIdentity(client);
    const other = accounts.get(account) ?? client.key;
    if (other !== client.key)
      addProblem(
        `clients ${other} and ${client.key} have the same base URL and username; keep one`,
      );
    accounts.set(account, client.key);

    if ((password === '') === (passwordFile === undefined))
      addProblem(`${name}: give either password or passwordFile`);

    if (password !== '' || passwordFile === undefined) return { ...client, password };
    try {
      return { ...client, password: readSecretFile(passwordFile) };
    } catch (error) {
      addProblem(`${name}: passwordFile cannot be read: ${describeFileError(error)}`);
      return { ...client, password };
    }
  });
}

/** Returns the files of secrets that a JSON file names; none if it cannot be read. */
export function listSecretFiles(path: string): string[] {
  const named = z.array(
    z.object({ passwordFile: z.string().optional(), secretFile: z.string().optional() }),
  );

  const entries = path === '' ? [] : (parseJsonFile('', path, named, []) ?? []);
  return entries.flatMap(({ passwordFile, secretFile }) => passwordFile ?? secretFile ?? []);
}

/** What a token of the API allows. */
export type ApiRight = 'read' | 'write';

/** Default limit of a token. A program that pushes as fast as a worker sends stays below it. */
const apiRequestsPerSecond = 500;

const apiTokenSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,64}$/, 'must have 1 to 64 letters, digits, dots, hyphens or underscores'),
  sha256: z
    .string()
    .regex(
      /^[0-9a-f]{64}$/,
      'must be 64 hexadecimal digits, from: printf %s "$TOKEN" | sha256sum | cut -c-64',
    ),
  client: z.string(),
  rights: z
    .array(z.enum(['read', 'write'] satisfies ApiRight[]))
    .min(1, 'must name read, write or both'),
  requestsPerSecond: z.int().min(1).max(10_000).default(apiRequestsPerSecond),
});

/** A token of the API: its holder, the client whose rows it reads and writes, and its SHA-256. */
export type ApiToken = Readonly<z.infer<typeof apiTokenSchema>>;

/**
 * Reads API_TOKENS_FILE. Adds one line per problem to `problems`. An empty list is right: it
 * revokes the last token.
 */
export function readApiTokensFile(
  path: string,
  clients: readonly Pick<WarehouseClient, 'key'>[],
  problems: string[],
): readonly ApiToken[] {
  const tokens = parseJsonFile('API_TOKENS_FILE', path, z.array(apiTokenSchema), problems) ?? [];

  for (const [index, { name, sha256, client }] of tokens.entries()) {
    const addProblem = (problem: string) =>
      problems.push(`API_TOKENS_FILE: token ${name}: ${problem}`);
    const earlier = tokens.slice(0, index);

    if (earlier.some((one) => one.name === name)) addProblem('is named twice');
    if (earlier.some((one) => one.sha256 === sha256)) addProblem('has the sha256 of another one');
    if (clients.length > 0 && !clients.some(({ key }) => key === client))
      addProblem(`there is no client ${client}`);
  }
  return tokens;
}

/** Reads WAREHOUSE_OPERATIONS_FILE, and returns the built-in operations with its overrides. */
export function readOperationsFile(file: string, problems: string[]): Operations {
  const schema = z.record(z.string(), entrySchema);
  const overrides = parseJsonFile('WAREHOUSE_OPERATIONS_FILE', file, schema, problems) ?? {};
  const merged: Record<OperationName, Operation> = { ...operations };

  for (const [name, entry] of Object.entries(overrides)) {
    if (!isOperation(name)) {
      const known = listLikeNames(name).join(', ');
      problems.push(`WAREHOUSE_OPERATIONS_FILE: ${name} is not an operation; known are ${known}`);
      continue;
    }

    // An entry switches on an operation that is off.
    const { enabled: _off, ...builtIn }: Operation = operations[name];
    const given = entry as Partial<Operation> & Pick<Operation, 'method' | 'path'>;
    const isUnchanged = builtIn.method === given.method && builtIn.path === given.path;

    for (const text of findSwitchProblems(name, given))
      problems.push(`WAREHOUSE_OPERATIONS_FILE: ${name}: ${text}`);

    merged[name] = {
      ...builtIn,
      ...given,
      documented: given.documented ?? (isUnchanged && builtIn.documented),
    };
  }
  return merged;
}

/** Returns the names of the operations of the same generation; of all, if there is no such one. */
function listLikeNames(name: string): readonly string[] {
  const names = Object.keys(operations);
  const like = names.filter((known) => known.startsWith(`${name.split('.', 1)[0]}.`));
  return like.length > 0 ? like : names;
}

const isOperation = (name: string): name is OperationName => Object.hasOwn(operations, name);

/**
 * Reads a JSON file and checks it. Adds one line per problem to `problems`, and returns undefined
 * if there are any.
 */
export function parseJsonFile<T>(
  variable: string,
  path: string,
  schema: z.ZodType<T>,
  problems: string[],
): T | undefined {
  let parsed: unknown;

  try {
    parsed = JSON.parse(readTextFile(path));
  } catch (error) {
    // The message of JSON.parse quotes the text that it could not parse, which may be a password.
    const reason =
      error instanceof SyntaxError
        ? 'is not valid JSON'
        : `cannot be read: ${describeFileError(error)}`;
    problems.push(`${variable}: ${path} ${reason}`);
    return undefined;
  }

  const result = schema.safeParse(parsed, { error: describeIssue });
  if (result.success) return result.data;

  for (const issue of result.error.issues)
    problems.push([variable, issue.path.join('.'), issue.message].filter(Boolean).join(': '));
  return undefined;
}
