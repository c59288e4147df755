import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
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
