import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (name: string) => readFileSync(join(root, name), 'utf8');
const files = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n');

/** Returns the anchor that a heading gets when Markdown is rendered. */
const toAnchor = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');

const removeCode = (text: string) =>
  text.replaceAll(/```.*?```/gs, '').replaceAll(/`[^`\n]*`/g, '');

function readAnchors(path: string): string[] {
  const headings = readFileSync(path, 'utf8')
    .replaceAll(/```.*?```/gs, '')
    .matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = '']) => toAnchor(heading));
}

/**
 * Returns the broken links of a Markdown file: links to files or headings that do not exist. It
 * does not check links to other sites.
 */
function findBrokenLinks(root: string, file: string): string[] {
  const text = removeCode(readFileSync(join(root, file), 'utf8'));
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
    if (/^https?:/.test(target)) return [];
    const [name = '', anchor] = target.split('#', 2);
    const path = name === '' ? join(root, file) : join(root, dirname(file), name);
    if (!existsSync(path)) return [`${file}: ${target} is not there`];
    if (anchor === undefined || statSync(path).isDirectory()) return [];
    return readAnchors(path).includes(anchor) ? [] : [`${file}: ${target} has no such heading`];
  });
}

/** A test that a document names: its file, and its title or a part of it. */
interface NamedTest {
  readonly file: string;
  readonly title: string;
}

/** Returns the named tests whose file does not exist or does not contain the title. */
function findMissingTests(root: string, named: readonly NamedTest[]): NamedTest[] {
  return named.filter(({ file, title }) => {
    const path = join(root, file);
    return title === '' || !existsSync(path) || !readFileSync(path, 'utf8').includes(title);
  });
}

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
