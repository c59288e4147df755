#!/usr/bin/env node
import { createCli, exitCodeOf } from './cli.ts';

try {
  await createCli().parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
