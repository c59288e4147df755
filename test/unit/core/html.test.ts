import { expect, test } from 'vitest';
import { formatTable } from '../../../src/cli/table.ts';
import { html } from '../../../src/core/html.ts';
import { createLogger } from '../../../src/operate/logging/create-logger.ts';

/** Text that reads «gpj.exe» as «exe.jpg», rings, clears a line, and ends one. */
const hostile = 'a\u202egpj.exe\u2066\u200f\u061c\u0007\u001b[2K\u009b\u0000\u2028b';
const hidden =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be shown
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

test.each([
  ['a page', () => html`<p title="${hostile}">${[hostile, [hostile]]}</p>`.text],
  ['a table of a terminal', () => formatTable([{ hostile }], { x: (row) => row.hostile })],
  [
    'a line of the log',
    () => {
      const lines: string[] = [];
      createLogger('info', { write: (line: string) => void lines.push(line.trimEnd()) }).info({
        ...{ event: hostile, error: hostile, warnings: [hostile] },
      });
      return lines.join('');
    },
  ],
])('%s shows hidden characters of others by their codes', (_name, show) => {
  const shown = show();
  expect(shown).not.toMatch(hidden);
  expect(shown).toContain('u{202e}gpj.exe');
});

test('white space that people typed in a form stays', () => {
  expect(html`<textarea>${'a\r\n\tb'}</textarea>`.text).toBe('<textarea>a\r\n\tb</textarea>');
});
