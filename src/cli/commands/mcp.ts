import { once } from 'node:events';
import type { Command } from 'commander';
import { readConfig } from '../../../config/env.ts';
import { describeError } from '../../core/errors.ts';
import { silentLogger } from '../../core/logger.ts';
import { connectDatabase, toAddress } from '../../db/connect.ts';
import { assertSchemaFits } from '../../db/schema-fit.ts';
import { openOverviewReader } from '../../operate/health/overview.ts';
import {
  addCommand,
  createStopSignal,
  exitWith,
  printError,
  readOperatorName,
} from '../command-line.ts';

interface McpOptions {
  readonly allowActions?: boolean;
}

const poolSize = 2;
const queryTimeoutMs = 10_000;

/**
 * Answers an assistant on standard input and output until its end. Only messages of the protocol
 * are written there.
 */
async function mcpCommand({ allowActions = false }: McpOptions): Promise<number> {
  const config = readConfig({ database: true, clients: true });
  const { db, close } = connectDatabase(toAddress(config), silentLogger, {
    name: 'mcp',
    max: poolSize,
    queryTimeoutMs,
  });

  try {
    await assertSchemaFits(db);

    // Other commands do not load the library.
    const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
    const { createToolServer } = await import('../../serve/mcp/tools.ts');

    const stop = createStopSignal();
    const ended = Promise.race([
      once(process.stdin, 'end'),
      once(process.stdin, 'close'),
      once(stop, 'abort'),
    ]);

    const deps = {
      config,
      db,
      readOverview: openOverviewReader(db, config),
      daemon: () => null,
      by: `mcp ${readOperatorName()}`,
      allowActions,
    };
    const server = serveStdio(() => createToolServer(deps), {
      onerror: (error) => printError(describeError(error)),
    });

    await ended;
    await server.close();
    return 0;
  } finally {
    await close();
  }
}

/** Adds `mcp`. */
export function addMcpCommand(cli: Command): void {
  const description = 'serve an assistant on standard input and output (Model Context Protocol)';
  addCommand(cli, { name: 'mcp', description, examples: '--env-file .env' })
    .option(
      '--allow-actions',
      'let it retry and cancel rows, and pause and resume jobs; each is in the audit',
    )
    .action(exitWith(mcpCommand));
}
