/**
 * Replaces package.json while `npm pack` or `npm publish` reads it, and in the image. The bundle
 * contains most dependencies; who installs the package needs only those outside it. In the
 * checkout, `dependencies` names all, for `npm audit` and `npm run sbom`. With `restore`, the
 * original comes back.
 */
import { copyFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { external } from '../rolldown.config.ts';

const original = '.package.json.original';

if (process.argv[2] === 'restore') renameSync(original, 'package.json');
else {
  // If an earlier `npm pack` was interrupted, the kept file is the original.
  if (!existsSync(original)) copyFileSync('package.json', original);
  const {
    devDependencies: _tools,
    scripts: _scripts,
    allowScripts: _allowed,
    ...manifest
  } = readOriginal();
  const dependencies = Object.entries(manifest.dependencies).filter(([name]) =>
    external.includes(name),
  );
  const packed = { ...manifest, dependencies: Object.fromEntries(dependencies) };
  writeFileSync('package.json', `${JSON.stringify(packed, null, 2)}\n`);
}

function readOriginal() {
  return JSON.parse(readFileSync(original, 'utf8')) as Record<string, unknown> & {
    dependencies: Record<string, string>;
  };
}
