import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dateChangelog, readSection } from '../../../tools/release/changelog.ts';
import { nameRelease } from '../../../tools/release/names.ts';
import { toPackedManifest } from '../../../tools/release/packed-manifest.ts';
import { planRelease } from '../../../tools/release/plan.ts';

const changelog =
  '# Changelog\n\n## 0.2.0 - not released\n\n### Added\n\n- A.\n\n## 0.1.9 - not released\n\n- B.\n\n## 0.0.1 - 2026-01-01\n';

describe('the changelog', () => {
  test('gets the date of its newest version, and only that', () => {
    const dated = dateChangelog(changelog, '0.2.0', '2026-11-23');
    expect(dated).toBe(changelog.replace('0.2.0 - not released', '0.2.0 - 2026-11-23'));
    expect(readSection(dated, '0.2.0')).toBe('### Added\n\n- A.');
  });

  test.each([
    ['of another version', changelog, '0.3.0', /begins with 0.2.0; package.json has 0.3.0/],
    ['without a version', '# Changelog\n', '0.3.0', /begins with no version/],
    ['that has a date', changelog.replace('not released', '2026-01-01'), '0.2.0', /was released: 2026-01-01/],
    ['that is empty', '## 0.2.0 - not released\n\n## 0.1.9 - not released\n- B', '0.2.0', /says nothing about 0.2.0/],
  ])('%s is refused', (_, text, version, words) => {
    expect(() => dateChangelog(text, version, '2026-11-23')).toThrow(words);
  });
});

test.each([
  ['0.2.0', 'latest', ['0.2.0', '0.2', 'latest']],
  ['1.4.2', 'latest', ['1.4.2', '1.4', '1', 'latest']],
  ['1.0.0-rc.1', 'next', ['1.0.0-rc.1']],
])('version %s is published as %s, with its image tags', (version, channel, tags) => {
  const names = nameRelease(version, 'ghcr.io/o/sync');
  expect([names.tag, names.channel]).toEqual([`v${version}`, channel]);
  expect(names.images).toEqual([
    { target: 'worker', tags: tags.map((tag) => `ghcr.io/o/sync:${tag}`) },
    { target: 'sandbox', tags: tags.map((tag) => `ghcr.io/o/sync-sandbox:${tag}`) },
  ]);
});

test.each(['1.2', 'v1.2.3', '1.2.3-rc', ''])('"%s" is refused as a version', (version) => {
  expect(() => nameRelease(version)).toThrow(/is not a version/);
});

test('the targets of the images are stages of the Dockerfile', () => {
  const dockerfile = readFileSync(new URL('../../../Dockerfile', import.meta.url), 'utf8');
  for (const { target } of nameRelease('1.0.0').images) expect(dockerfile).toMatch(new RegExp(` AS ${target}$`, 'm'));
});

test('steps that others see come last, and the package is published with its provenance', () => {
  const options = { version: '1.0.0', image: 'x', hasImages: true, folder: 'f', revision: 'r', created: 'c' };
  const steps = planRelease(options);
  const firstPublic = steps.findIndex(({ isPublic }) => isPublic);
  expect(steps.slice(firstPublic).every(({ isPublic }) => isPublic)).toBe(true);
  const seen = (command: readonly string[]) => /^(git push|npm publish|docker push)/.test(command.join(' '));
  for (const { command, isPublic } of steps) expect([command, isPublic]).toEqual([command, seen(command)]);
  expect(steps.map(({ command }) => command.join(' '))).toContain(
    // npm takes f/x.tgz for the repository x.tgz of f at GitHub.
    'npm publish ./f/fulfilment-sync-1.0.0.tgz --provenance --tag latest',
  );
  const without = planRelease({ ...options, hasImages: false });
  expect(without.filter(({ command }) => command[0] === 'docker')).toEqual([]);
});

test('the packed package.json has only the dependencies outside the bundle', () => {
  const manifest = {
    version: '1.0.0',
    dependencies: { a: '1', '@b/c': '2' },
    devDependencies: { d: '3' },
    scripts: {},
  };
  expect(toPackedManifest(manifest, [/^@b\//])).toEqual({ version: '1.0.0', dependencies: { '@b/c': '2' } });
});

describe('npm run release -- --dry-run', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-release-'));
  const program = fileURLToPath(new URL('../../../tools/release/main.ts', import.meta.url));
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
      cwd: folder,
      encoding: 'utf8',
    });
  const run = () => spawnSync(process.execPath, [program, '--dry-run'], { cwd: folder, encoding: 'utf8' });
  beforeAll(() => {
    git('init', '--quiet', '--initial-branch=main');
    writeFileSync(join(folder, 'package.json'), '{"version": "0.2.0"}');
    writeFileSync(join(folder, 'CHANGELOG.md'), changelog);
    git('add', '.');
    git('commit', '--quiet', '--message=one');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('prints every step and changes nothing', () => {
    const { status, stdout, stderr } = run();
    expect([status, stderr]).toEqual([0, '']);
    for (const words of ['git tag --annotate v0.2.0', 'npm pack', 'sbom', '--provenance', '--tag fulfilment-sync:0.2 '])
      expect(stdout).toContain(words);
    expect(stdout).toContain('Nothing was changed.');
    expect([git('status', '--porcelain'), git('tag')]).toEqual(['', '']);
  });

  test('names everything that keeps it from being released', () => {
    git('tag', 'v0.2.0');
    git('switch', '--quiet', '--create', 'other');
    writeFileSync(join(folder, 'CHANGELOG.md'), changelog.replace('not released', '2026-01-01'));
    const { status, stderr } = run();
    expect(status).toBe(1);
    for (const words of ['has changes', 'The branch is other', 'The tag v0.2.0 exists', 'was released: 2026-01-01'])
      expect(stderr).toContain(words);
  });
});
