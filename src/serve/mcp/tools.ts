/**
 * Tools for assistants, by the Model Context Protocol. They read what the pages read, as a viewer
 * sees it.
 */

import { type CallToolResult, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { describeIssue } from '../../../config/config-error.ts';
import { runnableNames } from '../../../config/jobs.ts';
import { describeError } from '../../core/errors.ts';
import { removeQuotes } from '../../core/quote.ts';
import { version } from '../../core/version.ts';
import { pauseJob, resumeJob } from '../../schedule/sql/pauses.ts';
import type { PageDeps } from '../admin/admin-deps.ts';
import { pages } from '../admin/routes.ts';
import { RequestError } from '../request-error.ts';
import { changeRow, requireRow } from '../row-actions.ts';
import { foreignNote, toAssistantJson } from './assistant-answers.ts';

/** A tool that reads a page. */
interface ReadTool {
  readonly name: string;
  readonly path: string;
  readonly description: string;
  /** Members of the page's data; absent: all. */
  readonly members?: readonly string[];
}

const readTools: readonly ReadTool[] = [
  {
    name: 'problems',
    path: '/',
    description: 'What is wrong now, why, and what to do',
    members: ['now', 'problems'],
  },
  {
    name: 'freshness',
    path: '/',
    description: 'How old the tables of each stream are, and which jobs are late',
    members: ['now', 'streams', 'lateJobs', 'outbox'],
  },
  {
    name: 'search',
    path: '/orders',
    description: 'Finds orders by number, id, shipment, parcel code or return (q)',
  },
  {
    name: 'order_timeline',
    path: '/order',
    description: 'What happened to an order, the oldest first',
  },
  {
    name: 'outbox_rows',
    path: '/outbox',
    description:
      'Rows that are neither done nor cancelled, or those of a status, kind or reference',
  },
  {
    name: 'outbox_row',
    path: '/outbox/{id}',
    description: 'A row with its history, and advice; personal data is masked',
  },
];

/** What the tools are made from. */
export interface ToolDeps extends PageDeps {
  /** Name for the audit. */
  readonly by: string;
  /** True if tools may change something. */
  readonly allowActions: boolean;
}

/** Creates a server with the tools. Without `allowActions`, it has only those that read. */
export function createToolServer(deps: ToolDeps): McpServer {
  const server = new McpServer({ name: 'fulfilment-sync', version }, { instructions: foreignNote });
  for (const tool of readTools) addReadTool(server, deps, tool);
  if (deps.allowActions) addActionTools(server, deps);
  return server;
}

/** Maximum number of characters of an error. It may name what was given. */
const maxErrorLength = 2_000;

const toResult = (text: string, isError = false): CallToolResult => ({
  content: [{ type: 'text', text: isError ? removeQuotes(text).slice(0, maxErrorLength) : text }],
  isError,
});

/** Answers with a text. Errors are answers, too: an assistant reads why. */
async function answerWith(work: () => Promise<string>): Promise<CallToolResult> {
  try {
    return toResult(await work());
  } catch (error) {
    return toResult(explainError(error), true);
  }
}

function explainError(error: unknown): string {
  if (error instanceof RequestError) return error.message;
  if (!(error instanceof z.ZodError)) return describeError(error);
  return error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
}

function addReadTool(
  server: McpServer,
  deps: ToolDeps,
  { name, path, description, members }: ReadTool,
): void {
  const page = pages.find((one) => one.path === path);
  if (page === undefined) throw new TypeError(`there is no page ${path}`);

  const { parameters, make } = page;
  const inputs = Object.entries(parameters.shape).map(([input, schema]) => {
    const text = z.coerce.string();
    return [input, schema.safeParse(undefined).success ? text.optional() : text] as const;
  });
  const config = {
    description,
    inputSchema: z.object(Object.fromEntries(inputs)),
    annotations: { readOnlyHint: true },
  };

  server.registerTool(name, config, (given: object) =>
    answerWith(async () => {
      const headers = { accept: 'application/json' };
      const values = parameters.parse(given, { error: describeIssue });
      const found = await make(values as never, deps, { headers, role: 'viewer' });
      const data = typeof found === 'string' ? {} : (found.data as Record<string, unknown>);
      if (members === undefined) return toAssistantJson(data);
      return toAssistantJson(Object.fromEntries(members.map((member) => [member, data[member]])));
    }),
  );
}

/** Adds the tools that change something. Each writes an entry of the audit. */
function addActionTools(server: McpServer, { db, config, by }: ToolDeps): void {
  const rowInput = z.object({ id: z.int().positive(), sure: z.boolean().default(false) });
  const descriptions = {
    retry:
      'Sends a dead, unknown or pending row again. ' +
      'Needs sure: true if a person has to decide about the row',
    cancel: 'Cancels a dead or pending row for good. Needs sure: true',
  } as const;
  for (const action of ['retry', 'cancel'] as const) {
    const annotations = { destructiveHint: true };
    const tool = { description: descriptions[action], inputSchema: rowInput, annotations };
    server.registerTool(action, tool, ({ id, sure }) =>
      answerWith(async () => {
        await changeRow(db, await requireRow(db, id), action, { isSure: sure, by });
        return `Row ${id}: ${action} is done`;
      }),
    );
  }

  const keys = config.clients.map(({ key }) => key);
  const jobInput = z.object({ job: z.enum(runnableNames), client: z.enum(keys).optional() });
  const describe = (words: string) => ({
    description: `${words}; without a client, for all`,
    inputSchema: jobInput,
  });

  const pause = describe('Starts no more runs of a job');
  server.registerTool('pause', pause, ({ job, client = null }) =>
    answerWith(async () => {
      const isNew = await pauseJob(db, job, client, by);
      return isNew ? `${job} is paused` : `${job} was paused already`;
    }),
  );

  server.registerTool('resume', describe('Ends a pause'), ({ job, client = null }) =>
    answerWith(async () => `${await resumeJob(db, job, client, by)} pauses ended`),
  );
}
