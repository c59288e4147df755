import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { findMissingTests } from '../helpers/links.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const promises = readFileSync(join(root, 'docs/invariants.md'), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| I-'))
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .map(([, number = '', text = '', files = '', tests = '']) => ({
    number,
    text,
    files: files.split('<br>').map((file) => file.replaceAll('`', '')),
    tests: tests.split('<br>').map((named) => {
      const [, file = '', title = ''] = /^`(test\/[\w/.-]+)` › "(.+)"$/.exec(named) ?? [];
      return { file, title };
    }),
  }));

test('promises are numbered without gaps, each with a sentence', () => {
  expect(promises.length).toBeGreaterThanOrEqual(30);
  expect(promises.map(({ number }) => number)).toEqual(promises.map((_, index) => `I-${index + 1}`));
  expect(promises.filter(({ text }) => !text.endsWith('.'))).toEqual([]);
});

test('every promise names tests that exist', () => {
  expect(
    promises.flatMap(({ number, tests }) => findMissingTests(root, tests).map((named) => ({ number, ...named }))),
  ).toEqual([]);
});

test('every promise names files that exist', () => {
  expect(
    promises.flatMap(({ files }) => files.filter((file) => !/^[\w/.-]+$/.test(file) || !existsSync(join(root, file)))),
  ).toEqual([]);
});
