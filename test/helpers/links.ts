import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The anchor that a heading gets where Markdown is shown. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');

const withoutCode = (text: string) => text.replaceAll(/```.*?```/gs, '').replaceAll(/`[^`\n]*`/g, '');

function anchorsOf(path: string): string[] {
  const headings = readFileSync(path, 'utf8')
    .replaceAll(/```.*?```/gs, '')
    .matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = '']) => anchorOf(heading));
}

/**
 * Links of a Markdown file that lead nowhere: to files that are not there, or to headings that they do not have. Addresses
 * of other places are not asked.
 */
export function brokenLinks(root: string, file: string): string[] {
  const text = withoutCode(readFileSync(join(root, file), 'utf8'));
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
    if (/^https?:/.test(target)) return [];
    const [name = '', anchor] = target.split('#', 2);
    const path = name === '' ? join(root, file) : join(root, dirname(file), name);
    if (!existsSync(path)) return [`${file}: ${target} is not there`];
    if (anchor === undefined || statSync(path).isDirectory()) return [];
    return anchorsOf(path).includes(anchor) ? [] : [`${file}: ${target} has no such heading`];
  });
}
