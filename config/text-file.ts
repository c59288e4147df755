import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Maximum bytes of a file of the configuration. */
const maxBytes = 4 * 1024 * 1024;

/**
 * Reads a file of the configuration, without the mark that some editors put before UTF-8.
 * @throws Error if it cannot be read; its message never holds the content
 */
export function readTextFile(path: string): string {
  const bytes = readFileSync(path);
  if (bytes.length > maxBytes)
    throw new Error(`it has ${bytes.length} bytes; the maximum is ${maxBytes}`);

  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!text.includes('\0')) return text;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }

  throw new Error('it is not text in UTF-8; save it as UTF-8');
}

/**
 * Reads a secret from a file, without the line ends behind it.
 * @throws Error if the file cannot be read, if it is empty and must not be, or if it holds more
 *   than a secret, which would be refused later without a hint. Its message never holds the content
 */
export function readSecretFile(path: string, { mayBeEmpty = false } = {}): string {
  const secret = readTextFile(path).replace(/(?<![\r\n])[\r\n]+$/, '');
  if (secret === '' && !mayBeEmpty) throw new Error('it is empty');

  if (/[\r\n]/.test(secret))
    throw new Error('it has several lines; write the secret alone into one line');

  if (secret.trim() !== secret)
    throw new Error(
      'it begins or ends with a blank; ' +
        'remove the blank, or set the variable itself if it belongs there',
    );

  return secret;
}

/** What other users of this machine may do with a file; null: nothing. */
export type OpenAccess = 'write' | 'read' | null;

/** Folder of the files that a container engine makes for one container. No other user sees it. */
const containerSecrets = '/run/secrets/';

/**
 * Finds what every user of this machine may do with a file, by its mode and those of its folders.
 */
export function findOpenAccess(path: string): OpenAccess {
  const full = resolve(path);

  if (process.platform === 'win32' || full.startsWith(containerSecrets)) return null;
  const folders: string[] = [];
  for (let folder = dirname(full); !folders.includes(folder); folder = dirname(folder))
    folders.push(folder);
  const readMode = (name: string) => statSync(name, { throwIfNoEntry: false })?.mode ?? 0;

  if (!folders.every((folder) => readMode(folder) & 0o001)) return null;

  // Who may write to a folder can put another file in the place of one, unless only owners may
  // delete (mode 1777).
  const [nearest = '/'] = folders;
  const isReplaceable = (readMode(nearest) & 0o1002) === 0o002;
  if (readMode(full) & 0o002 || isReplaceable) return 'write';
  return readMode(full) & 0o004 ? 'read' : null;
}
