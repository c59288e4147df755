import { readFileSync } from 'node:fs';
import { describeFileError } from '../config-error.ts';

/**
 * Reads SETTINGS_FILE: one NAME=value a line, as in .env.example. Empty lines and lines that begin with # are left out,
 * and so are the quotes around a value. Adds one line per problem to `problems`; none quotes a value.
 * @param isSetting returns true if a name may stand in the file
 */
export function readSettingsFile(
  path: string,
  isSetting: (name: string) => boolean,
  problems: string[],
): Record<string, string> {
  const settings: Record<string, string> = {};
  for (const [index, text] of readLines(path, problems).entries()) {
    const at = `SETTINGS_FILE: line ${index + 1}`;
    if (text === '' || text.startsWith('#')) continue;
    const [before = '', ...rest] = text.split('=');
    const name = before.replace(/^export /, '').trim();
    const given = rest.join('=').trim();
    if (rest.length === 0 || !/^[A-Za-z_]\w*$/.test(name)) problems.push(`${at}: is not NAME=value`);
    else if (!isSetting(name)) problems.push(`${at}: there is no setting ${name} that may stand in a file`);
    else if (name in settings) problems.push(`${at}: ${name} is set a second time; keep one`);
    else settings[name] = readValue(given, `${at}: ${name}`, problems);
  }
  return settings;
}

function readLines(path: string, problems: string[]): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((text) => text.trim());
  } catch (error) {
    problems.push(`SETTINGS_FILE: ${path} cannot be read: ${describeFileError(error)}`);
    return [];
  }
}

/** Removes the quotes around a value. Other programs read what is refused here in different ways. */
function readValue(given: string, at: string, problems: string[]): string {
  const [first, last] = [given.at(0), given.at(-1)];
  const isQuoted = given.length > 1 && first === last && (first === '"' || first === "'");
  const value = isQuoted ? given.slice(1, -1) : given;
  if (/^["']|["']$/.test(value)) problems.push(`${at}: its quotes do not match`);
  else if (!isQuoted && /\s#/.test(given))
    problems.push(`${at}: put its comment on a line of its own, or quotes around the value`);
  return value;
}
