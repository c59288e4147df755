#!/usr/bin/env node
import { refuseOldNode } from './refuse-old-node.ts';

// Nothing else may be imported statically: an older Node fails while it loads the dependencies.
if (refuseOldNode(process.versions.node)) {
  // Stack traces of the bundle name the lines of the TypeScript sources.
  process.setSourceMapsEnabled(true);
  const { runCli } = await import('./program/program.ts');
  await runCli();
}
