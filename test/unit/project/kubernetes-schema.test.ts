import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import {
  kinds,
  kubernetesFolder,
  manifests,
  parseManifests,
} from '../../helpers/config/kubernetes.ts';

const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));

test('the manifests follow the schemas of Kubernetes', () => {
  expect(manifests.map(({ kind }) => kind).sort()).toEqual([
    ...['Deployment', 'Job', 'NetworkPolicy', 'NetworkPolicy', 'PodDisruptionBudget'],
  ]);
  for (const one of manifests) {
    expect(one.apiVersion).toBe(kinds[one.kind].apiVersion);
    new kinds[one.kind](one as never).validate();
  }
});

// The schemas allow unknown members, which a misspelt name would be. The types do not.
test('the manifests have no member that Kubernetes does not know', () => {
  const place = mkdtempSync(join(tmpdir(), 'fulfilment-sync-kubernetes-'));
  try {
    symlinkSync(modules, join(place, 'node_modules'));
    const lines = [
      ...Object.entries(kinds).map(
        ([kind, { apiVersion }]) =>
          `import type { I${kind} } from 'kubernetes-models/${apiVersion}/${kind}';`,
      ),
      ...manifests.map(
        (one, index) => `export const manifest${index}: I${one.kind} = ${JSON.stringify(one)};`,
      ),
      // If the compiler accepts the unknown member, it complains about this comment.
      '// @ts-expect-error',
      'export const misspelt: IDeployment = { spec: { selector: {}, template: { spec: { container: [] } } } };',
    ];
    writeFileSync(join(place, 'manifests.mts'), lines.join('\n'));
    const options = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--types',
      '',
    ];
    const { stdout } = spawnSync(join(modules, '.bin/tsc'), [...options, 'manifests.mts'], {
      cwd: place,
      encoding: 'utf8',
    });
    expect(stdout).toBe('');
  } finally {
    rmSync(place, { recursive: true });
  }
});

test('kustomize builds a worker and a migration that refer to their settings and to the image', ({
  skip,
}) => {
  // The kustomization of several clients contains the one of the worker.
  for (const name of ['migrate', 'several-clients']) {
    const { error, status, stdout, stderr } = spawnSync(
      'kubectl',
      ['kustomize', join(kubernetesFolder, name)],
      {
        encoding: 'utf8',
      },
    );
    skip(
      error !== undefined && 'code' in error && error.code === 'ENOENT',
      'kubectl is not installed',
    );
    expect(status, stderr).toBe(0);
    const built = parseManifests(stdout);
    const maps = built.flatMap(({ kind, metadata }) =>
      (kind as string) === 'ConfigMap' ? [metadata.name] : [],
    );
    expect(maps.length).toBe(name === 'migrate' ? 0 : 1);
    const [template] = built.flatMap(({ spec }) => spec?.template ?? []);
    const [container] = template?.spec?.containers ?? [];
    expect(container?.image).toBe(`fulfilment-sync:${manifest.version}`);
    expect((container?.envFrom ?? []).map(({ configMapRef }) => configMapRef?.name)).toEqual(maps);
  }
});
