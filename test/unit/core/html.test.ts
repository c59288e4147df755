import { expect, test } from 'vitest';
import { formatTable } from '../../../src/cli/table.ts';
import { html } from '../../../src/core/html.ts';
import { escapeHidden } from '../../../src/core/quote.ts';
import { createLogger } from '../../../src/operate/logging/create-logger.ts';

/** Characters that no font shows: in a number, two of them look the same. */
const invisible = '\u00ad\u034f\u200b\u2060\u2064\u3164\ufeff\u{e0041}\u{e0100}';
/** Text that reads «gpj.exe» as «exe.jpg», rings, clears a line, and ends one. */
const hostile = `a\u202egpj.exe\u2066\u200f\u061c\u0007\u001b[2K\u009b\u0000\u2028b${invisible}`;
const hidden =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be shown
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const isHidden = (text: string) =>
  hidden.test(text) || [...invisible].some((character) => text.includes(character));

test.each([
  ['a page', () => html`<p title="${hostile}">${[hostile, [hostile]]}</p>`.text],
  ['a table of a terminal', () => formatTable([{ hostile }])],
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
  expect(isHidden(shown)).toBe(false);
  expect(shown).toContain('u{202e}gpj.exe');
  expect(shown).toContain('u{e0041}');
});

test('joiners stay, which names of some languages and emoji need', () => {
  const names = '\u0645\u06cc\u200c\u062e\u0648 \u0915\u094d\u200d\u0937 👩\u200d🚀 ❤\ufe0f';
  expect(html`<p>${names}</p>`.text).toBe(`<p>${names}</p>`);
});

test('JSON with hidden characters has escapes that mean the same', () => {
  const json = escapeHidden(JSON.stringify({ [hostile]: hostile }));
  expect(isHidden(json)).toBe(false);
  expect(JSON.parse(json)).toEqual({ [hostile]: hostile });
});

test('white space that people typed in a form stays', () => {
  expect(html`<textarea>${'a\r\n\tb'}</textarea>`.text).toBe('<textarea>a\r\n\tb</textarea>');
});
