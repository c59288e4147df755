/**
 * Writes docs/coverage.md: operation by operation, the tests that cover it. Made from the sandbox's operations and from the
 * tests that stand in a block of the operation's name. `--check` writes nothing and fails where the file is not up to
 * date. Fails in any case where an operation has no test of its own.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { notServed, operations } from '../src/sandbox/operations/all.ts';
import type { Operation } from '../src/sandbox/operations/operation.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = join(root, 'docs', 'coverage.md');

interface Test {
  readonly name: string;
  readonly file: string;
}

const tests = listTests();
const bare = operations.filter((operation) => ownTests(operation).length === 0).map(({ name }) => name);
if (bare.length > 0) fail(`No test of its own has ${bare.join(', ')}: add a describeOperation block`);
const text = render();
if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== text) fail('docs/coverage.md is not up to date: run npm run coverage');
} else writeFileSync(target, text);

function listTests(): readonly Test[] {
  const folder = mkdtempSync(join(tmpdir(), 'operations-'));
  try {
    const file = join(folder, 'tests.json');
    const args = [
      'list',
      '--project',
      'integration',
      '--no-static-parse',
      `--json=${file}`,
      'test/integration/sandbox',
    ];
    execFileSync(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), ...args], {
      cwd: root,
      stdio: 'inherit',
    });
    return JSON.parse(readFileSync(file, 'utf8')) as Test[];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Tests in a block that has the operation's name. */
function ownTests({ name }: Operation): readonly Test[] {
  return tests.filter((test) => test.name.startsWith(`${name} > `));
}

function render(): string {
  const head = [
    '# Which tests cover which operation',
    '',
    'Made by `npm run coverage` from the operations of the sandbox and its tests; CI fails where an operation has none. Every',
    "block also fails where its operation was never answered with success, and every success is checked against the answer's",
    'schema, member by member. Beside these, `access.test.ts` tries each operation without a token, with a wrong one, and as',
    'another client.',
    '',
    `${operations.length} operations; of ${operations.filter(({ documented }) => !documented).length} the interface description does not show method and path (*assumed*).`,
  ];
  const missing = ['', '## Not served', '', ...notServed.map(({ name, why }) => `- ${name}: ${why}.`), ''];
  return [...head, ...operations.flatMap(section), ...missing].join('\n');
}

function section(operation: Operation): string[] {
  const own = ownTests(operation);
  const files = [...new Set(own.map(({ file }) => relative(root, file)))].join(', ');
  return [
    '',
    `## ${operation.name}`,
    '',
    `\`${operation.method} ${operation.path}\`${operation.documented ? '' : ' (*assumed*)'}: ${operation.summary}. Tests in ${files}:`,
    '',
    ...own.map(({ name }) => `- ${plain(name.slice(operation.name.length + 3))}`),
  ];
}

/** Titles hold JSON and signs that Markdown would read as its own. */
function plain(title: string): string {
  return /[{}<>_*[\]|]/.test(title) ? `\`${title.replaceAll('`', "'")}\`` : title;
}

function fail(words: string): never {
  process.stderr.write(`${words}\n`);
  process.exit(1);
}
