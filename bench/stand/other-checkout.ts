import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();

/** The files that make up the measured program. */
const programFiles = ['src', 'jobs', 'config', 'migrations', 'package-lock.json'];

/** Returns the last commit whose program differs from that of the working tree. */
export function findLastOther(): string {
  if (git('status', '--porcelain', '--', ...programFiles) !== '') return 'HEAD';
  return `${git('log', '-1', '--format=%h', '--', ...programFiles)}~1`;
}

/** A commit in a folder of its own. */
export interface OtherCheckout {
  readonly folder: string;
  /** The short hash and the subject of the commit. */
  readonly title: string;
}

/**
 * Checks a commit out into a temporary folder, with the dependencies of this checkout. The folder
 * goes at the exit.
 */
export function checkOut(revision: string): OtherCheckout {
  const commit = git('rev-parse', '--verify', '--end-of-options', `${revision}^{commit}`);
  const parent = mkdtempSync(join(tmpdir(), 'fulfilment-sync-before-'));
  process.once('exit', () => rmSync(parent, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  const folder = join(parent, 'checkout');
  git('clone', '--quiet', '--shared', '--no-checkout', root, folder);
  git('-C', folder, 'checkout', '--quiet', '--detach', commit);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
  return { folder, title: git('log', '-1', '--format=%h %s', commit) };
}
