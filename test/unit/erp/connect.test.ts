import { expect, test } from 'vitest';
import { mergeOptions } from '../../../src/erp/connection/merge-options.ts';

test.each([
  ['no query', 'postgres://u@h/db', 'postgres://u@h/db', '-c a=1'],
  ['other parameters', 'postgres://u@h/db?sslmode=require', 'postgres://u@h/db?sslmode=require', '-c a=1'],
  ['options', 'postgres://u@h/db?options=-c%20b%3D2', 'postgres://u@h/db?', '-c b=2 -c a=1'],
  ['options of a socket', 'postgres:///db?host=/run&options=-c%20b%3D2', 'postgres:///db?host=%2Frun', '-c b=2 -c a=1'],
  [
    'a question mark in a value',
    'postgres://u@h/db?application_name=a?b&options=-c%20b%3D2',
    'postgres://u@h/db?application_name=a%3Fb',
    '-c b=2 -c a=1',
  ],
])('options of a database URL are merged with ours: %s', (_title, url, connectionString, options) => {
  expect(mergeOptions(url, ['-c a=1'])).toEqual({ connectionString, options });
});
