import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { secretNames, variableNames } from '../../../config/env.ts';
import { createCli } from '../../../src/app/program/program.ts';
import { formatResultTable, readResults } from '../../../tools/chaos/table.ts';
import { findBrokenLinks, findMissingTests } from '../../helpers/links.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (name: string) => readFileSync(join(root, name), 'utf8');
const files = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n');

test('every link of the documents leads to an existing file and heading', () => {
  expect(files).toContain('README.md');
  expect(files.length).toBeGreaterThan(10);
  expect(files.flatMap((file) => findBrokenLinks(root, file))).toEqual([]);
});

test('SECURITY.md names a test for each sentence of its tables, and the test exists', () => {
  const rows = read('SECURITY.md')
    .split('\n')
    .filter((line) => /^\| (?!what holds|-)/.test(line))
    .map((line) => line.split(' | ').at(-1)?.replace(/ *\|$/, '') ?? '');
  expect(rows.length).toBeGreaterThan(30);
  const named = rows.flatMap((tests) =>
    tests.split('<br>').map((text) => {
      const [, file = '', title = ''] = /^`(test\/[\w/.-]+)`: (.+?) *$/.exec(text) ?? [];
      return { file, title };
    }),
  );
  expect(findMissingTests(root, named)).toEqual([]);
});

test('a broken link is found', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-links-'));
  try {
    writeFileSync(
      join(folder, 'a.md'),
      '# One *two*\n[1](#one-two) [2](b.md#three) [3](c.md) [4](b.md#four) `[5](d.md)` [6](https://example.com/x)',
    );
    writeFileSync(join(folder, 'b.md'), '## Three!\n```\n# Four\n```\n');
    expect(findBrokenLinks(folder, 'a.md')).toEqual(['a.md: c.md is not there', 'a.md: b.md#four has no such heading']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the table of campaigns equals the recorded results', () => {
  const kept = readResults(read('docs/reliability/campaigns.jsonl'));
  const cells = (text: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith('|') && !/^[|: -]+$/.test(line))
      .map((line) => line.split('|').map((cell) => cell.trim()));
  const page = read('docs/reliability.md');
  const table = page.slice(page.indexOf('<!-- campaigns'), page.indexOf('Of each campaign'));
  expect(cells(table)).toEqual(cells(formatResultTable(kept)));
  expect(kept.length).toBeGreaterThan(100);
});

describe('README', () => {
  const readme = read('README.md');

  test('has every setting, and every command', () => {
    for (const name of variableNames) expect(readme).toContain(`\`${name}\``);
    for (const name of secretNames) expect(readme).toContain(`\`${name}\``);
    const commands = createCli().commands.map((command) => command.name());
    for (const name of commands.filter((command) => command !== 'help'))
      expect(readme).toMatch(new RegExp(`^\\|.*\`${name}[ \`]`, 'm'));
  });

  test('names every document', () => {
    const documents = files.filter((file) => file.startsWith('docs/') && file !== 'docs/outbox-payloads.json');
    expect(documents.filter((file) => !readme.includes(`(${file})`))).toEqual([]);
  });
});
