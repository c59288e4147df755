/**
 * `npm pack` and `npm publish` call this before and after they read package.json. The bundle contains most
 * dependencies; who installs the package needs only those that stay outside it. In the checkout, `dependencies` names
 * all, for `npm audit` and `npm run sbom`.
 */
import { copyFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { external } from '../../rolldown.config.ts';

/** The parts of package.json that this tool reads or leaves out. */
interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly [member: string]: unknown;
}

/** Returns package.json as it is packed: without what only a checkout uses, and with the dependencies outside the bundle. */
export function toPackedManifest(manifest: Manifest, outside: readonly (string | RegExp)[] = external): object {
  const { devDependencies: _tools, scripts: _scripts, allowScripts: _allowed, ...kept } = manifest;
  const isOutside = (name: string) =>
    outside.some((pattern) => (typeof pattern === 'string' ? pattern === name : pattern.test(name)));
  const dependencies = Object.entries(manifest.dependencies).filter(([name]) => isOutside(name));
  return { ...kept, dependencies: Object.fromEntries(dependencies) };
}

/** Replaces package.json in the current folder, and keeps the original beside it until `restore`. */
function write(): void {
  // If an earlier `npm pack` was interrupted, the kept file is the original.
  if (!existsSync(kept)) copyFileSync('package.json', kept);
  const manifest = JSON.parse(readFileSync(kept, 'utf8')) as Manifest;
  writeFileSync('package.json', `${JSON.stringify(toPackedManifest(manifest), null, 2)}\n`);
}

function restore(): void {
  if (existsSync(kept)) renameSync(kept, 'package.json');
}

const kept = '.package.json.original';

if (import.meta.main) {
  const [action] = process.argv.slice(2);
  if (action === 'write') write();
  else if (action === 'restore') restore();
  else throw new Error('Say write or restore');
}
