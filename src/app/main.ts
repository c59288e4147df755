#!/usr/bin/env node
import { refuseOldNode } from './refuse-old-node.ts';

// Import everything else dynamically: an older Node would fail while it loads the dependencies.
if (refuseOldNode(process.versions.node)) {
  // Makes stack traces of the bundle name the lines of the TypeScript sources.
  process.setSourceMapsEnabled(true);
  // A worker restarts on SIGHUP. While it loads, the signal must not end it.
  if (process.argv.includes('worker')) process.on('SIGHUP', () => undefined);
  const { outliveReaders } = await import('./cli/command-line.ts');
  outliveReaders();
  const { runCli } = await import('./program.ts');
  await runCli();
}
