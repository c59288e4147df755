/**
 * Prints a page with the tests that cover each operation of the sandbox. A test covers an operation
 * if it is in a block with the operation's name. With `--check`, prints only a summary. Fails if an
 * operation has no test.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { operations } from '../src/sandbox/operations/all.ts';
import type { Operation } from '../src/sandbox/operations/operation.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

interface Test {
  readonly name: string;
  readonly file: string;
}

const tests = listTests();
const untested = operations
  .filter((operation) => findTests(operation).length === 0)
  .map(({ name }) => name);
if (untested.length > 0) {
  process.stderr.write(`No test covers ${untested.join(', ')}: add a describeOperation block\n`);
  process.exit(1);
}
const summary = `${operations.length} operations, each covered by tests (${tests.length} tests).`;
process.stdout.write(process.argv.includes('--check') ? `${summary}\n` : render());

function listTests(): readonly Test[] {
  const folder = mkdtempSync(join(tmpdir(), 'operations-'));
  try {
    const file = join(folder, 'tests.json');
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const options = ['--project', 'integration', '--no-static-parse', `--json=${file}`];
    const args = [vitest, 'list', ...options, 'test/integration/sandbox'];
    execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
    return JSON.parse(readFileSync(file, 'utf8')) as Test[];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the tests in the block with the operation's name. */
function findTests({ name }: Operation): readonly Test[] {
  return tests.filter((test) => test.name.startsWith(`${name} > `));
}

function render(): string {
  const assumed = operations.filter(({ documented }) => !documented);
  const head = [
    '# Which tests cover which operation',
    '',
    '`npm run coverage` prints this page from the operations of the sandbox and its tests. CI fails if an operation has no',
    'test. A block of tests also fails if its operation never answered with success. Each successful answer is checked',
    'against its schema, member by member. In addition, `access.test.ts` tries each operation without a token, with a wrong',
    'token, and as another client.',
    '',
    `${operations.length} operations. The interface description does not show method and path of ` +
      `${assumed.length} of them (*assumed*).`,
  ];
  return [...head, ...operations.flatMap(renderSection), ''].join('\n');
}

function renderSection(operation: Operation): string[] {
  const found = findTests(operation);
  const files = [...new Set(found.map(({ file }) => relative(root, file)))].join(', ');
  const mark = operation.documented ? '' : ' (*assumed*)';
  return [
    '',
    `## ${operation.name}`,
    '',
    `\`${operation.method} ${operation.path}\`${mark}: ${operation.summary}. Tests in ${files}:`,
    '',
    ...found.map(({ name }) => `- ${escapeTitle(name.slice(operation.name.length + 3))}`),
  ];
}

/** Quotes a title as code if it holds characters that Markdown would interpret. */
function escapeTitle(title: string): string {
  return /[{}<>_*[\]|]/.test(title) ? `\`${title.replaceAll('`', "'")}\`` : title;
}
