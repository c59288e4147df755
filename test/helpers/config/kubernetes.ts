import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { Job } from 'kubernetes-models/batch/v1/Job';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import type { IPodTemplateSpec } from 'kubernetes-models/v1/PodTemplateSpec';
import { parse, parseAllDocuments } from 'yaml';

export const kubernetesFolder = fileURLToPath(
  new URL('../../../deploy/kubernetes', import.meta.url),
);

/** The kinds that the manifests use, with their schemas. */
export const kinds = { Deployment, Job, NetworkPolicy, PodDisruptionBudget };
type KindName = keyof typeof kinds;

export interface Manifest {
  apiVersion: string;
  kind: KindName;
  metadata: { name: string };
  spec: { template: IPodTemplateSpec };
}

interface Kustomization {
  components?: string[];
  images?: { name: string; newTag: string }[];
  configMapGenerator?: { literals: string[] }[];
}

/** Reads the documents of a file or of the output of kustomize. */
export const parseManifests = (text: string): Manifest[] =>
  parseAllDocuments(text).map((document) => document.toJS() as Manifest);

/** All manifests of deploy/kubernetes, without the kustomizations. */
export const manifests: readonly Manifest[] = globSync('*/*.yaml', {
  cwd: kubernetesFolder,
  exclude: ['*/kustomization.yaml'],
})
  .sort()
  .flatMap((name) => parseManifests(readFileSync(join(kubernetesFolder, name), 'utf8')));

/** Returns a manifest by its kind and name. */
export function findManifest<K extends KindName>(
  kind: K,
  name = 'fulfilment-sync',
): InstanceType<(typeof kinds)[K]> {
  const found = manifests.find(
    (manifest) => manifest.kind === kind && manifest.metadata.name === name,
  );
  if (found === undefined) throw new Error(`deploy/kubernetes has no ${kind} ${name}`);
  return found as unknown as InstanceType<(typeof kinds)[K]>;
}

/** Reads the kustomization of a folder of deploy/kubernetes. */
export const readKustomization = (name: string) =>
  parse(readFileSync(join(kubernetesFolder, name, 'kustomization.yaml'), 'utf8')) as Kustomization;

/** Returns the settings that a kustomization gives to the worker, by their names. */
export function readSettings(name: string): Record<string, string> {
  const literals = (readKustomization(name).configMapGenerator ?? []).flatMap(
    (map) => map.literals,
  );
  return Object.fromEntries(literals.map((literal) => literal.split(/=(.*)/s, 2)));
}
