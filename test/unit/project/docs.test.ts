import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { findBrokenLinks, findMissingTests } from '../../helpers/links.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (name: string) => readFileSync(join(root, name), 'utf8');
const files = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n');

test('every link of the documents leads to an existing file and heading', () => {
  expect(files).toContain('README.md');
  expect(files.length).toBeGreaterThan(10);
  expect(files.flatMap((file) => findBrokenLinks(root, file))).toEqual([]);
});

test.each(['docs/architecture.md', 'SECURITY.md'])(
  'each promise of %s names tests that exist',
  (page) => {
    const links = [
      ...read(page).matchAll(/\[([^\]]+)\]\((?:\.\.\/)?(test\/[\w/.-]+\.test\.ts)\)/g),
    ];
    const named = links.map(([, title = '', file = '']) => ({ file, title }));
    expect(named.length).toBeGreaterThan(30);
    expect(findMissingTests(root, named)).toEqual([]);
  },
);

test('a broken link is found', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-links-'));
  try {
    writeFileSync(
      join(folder, 'a.md'),
      '# One *two*\n[1](#one-two) [2](b.md#three) [3](c.md) [4](b.md#four) `[5](d.md)` [6](https://example.com/x)',
    );
    writeFileSync(join(folder, 'b.md'), '## Three!\n```\n# Four\n```\n');
    expect(findBrokenLinks(folder, 'a.md')).toEqual([
      'a.md: c.md is not there',
      'a.md: b.md#four has no such heading',
    ]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
