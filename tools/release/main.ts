/**
 * Makes a release of the checkout in the current folder: `npm run release -- --dry-run` only checks, and prints the steps.
 * Without it, the steps are done whose effect is on this machine. `--push` also does those that others see.
 * CONTRIBUTING.md says more.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { dateChangelog } from './changelog.ts';
import { nameRelease } from './names.ts';
import { planRelease, type Step } from './plan.ts';

const folder = 'release';
const { values: options } = parseArgs({
  options: {
    'dry-run': { type: 'boolean', default: false },
    push: { type: 'boolean', default: false },
    'without-images': { type: 'boolean', default: false },
    image: { type: 'string', default: 'fulfilment-sync' },
  },
});
const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim();
const print = (line: string) => process.stdout.write(`${line}\n`);
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string; repository?: unknown };

/** Returns what keeps this checkout from being released. */
function findProblems(): readonly string[] {
  const { tag } = nameRelease(manifest.version);
  const changed = git('status', '--porcelain');
  const branch = git('branch', '--show-current');
  return [
    ...(changed === '' ? [] : [`The checkout has changes: commit or remove them\n${changed}`]),
    ...(branch === 'main' ? [] : [`The branch is ${branch || 'none'}: releases are made from main`]),
    ...(git('tag', '--list', tag) === '' ? [] : [`The tag ${tag} exists: raise the version in package.json`]),
    ...(options.push && manifest.repository === undefined
      ? ['package.json has no "repository": provenance needs the address of the public repository']
      : []),
    ...findChangelogProblem(),
  ];
}

function findChangelogProblem(): readonly string[] {
  try {
    dateChangelog(readFileSync('CHANGELOG.md', 'utf8'), manifest.version, '');
    return [];
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

/** Executes a step. Returns false if its command failed, which has then said why. */
function execute({ command: [program = '', ...args], output }: Step): boolean {
  const stdout = output === undefined ? 'inherit' : 'pipe';
  const done = spawnSync(program, args, { maxBuffer: 2 ** 28, stdio: ['ignore', stdout, 'inherit'] });
  if (done.error !== undefined) process.stderr.write(`${program}: ${done.error.message}\n`);
  if (done.status !== 0) return false;
  if (output !== undefined) writeFileSync(output, done.stdout);
  return true;
}

function main(): number {
  const problems = findProblems();
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (problems.length > 0) return 1;
  print(`Checked: no changes, branch main, ${nameRelease(manifest.version).tag} is new, the changelog describes it`);
  const now = new Date().toISOString();
  const day = now.slice(0, 10);
  print(`CHANGELOG.md: "${manifest.version} - not released" becomes "${manifest.version} - ${day}"`);
  if (!options['dry-run']) {
    if (!existsSync(folder)) mkdirSync(folder);
    writeFileSync('CHANGELOG.md', dateChangelog(readFileSync('CHANGELOG.md', 'utf8'), manifest.version, day));
  }
  const plan = (revision: string) =>
    planRelease({
      version: manifest.version,
      image: options.image,
      hasImages: !options['without-images'],
      folder,
      revision,
      created: now,
    });
  for (const [index, { what, isPublic }] of plan('').entries()) {
    // The images name the commit of the changelog, which the first step makes.
    const step = plan(git('rev-parse', 'HEAD'))[index];
    if (step === undefined) continue;
    const isLeftOut = options['dry-run'] || (isPublic && !options.push);
    const target = step.output === undefined ? '' : ` > ${step.output}`;
    print(`${what}${isPublic ? ' (only with --push)' : ''}: ${step.command.join(' ')}${target}`);
    if (isLeftOut || execute(step)) continue;
    process.stderr.write(
      `Failed: ${what}. See CONTRIBUTING.md for how to start over, or to continue after the push.\n`,
    );
    return 1;
  }
  print(options['dry-run'] ? 'Nothing was changed.' : `Done: see ${folder}/`);
  return 0;
}

process.exitCode = main();
