import { readFileSync } from 'node:fs';
import { describeFileError } from './files.ts';

const line = /^(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)$/;

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
    const [, name, given = ''] = line.exec(text) ?? [];
    if (name === undefined) problems.push(`${at}: is not NAME=value`);
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
  const quoted = /^(["'])(.*)\1$/.exec(given)?.[2];
  const value = quoted ?? given;
  if (/^["']|["']$/.test(value)) problems.push(`${at}: its quotes do not match`);
  else if (quoted === undefined && /\s#/.test(given))
    problems.push(`${at}: put its comment on a line of its own, or quotes around the value`);
  return value;
}
