import { streams } from '../../../jobs/registry.ts';
import { replayParcels } from '../../sync/pulls/parcels.ts';
import { type ReplayCounts, replayQuarantine } from '../../sync/rescan/replay.ts';
import { withColumnComparison } from '../../sync/rescan/rescan-jobs.ts';
import type { RunReport } from '../../sync/run/run.ts';
import { findStream, print } from '../cli/command-line.ts';
import { describeEnd, exitCodeFor, withForeground } from '../cli/with-foreground.ts';
import { runWork } from '../worker/runner.ts';

/** Replays the quarantine of one stream or of all streams, and prints the counts. */
export async function quarantineReplayCommand(
  name: string | undefined,
  options: { readonly client?: string; readonly json?: boolean },
): Promise<number> {
  const chosen = name === undefined ? streams : [findStream(name)];
  return withForeground(options.client, options.json === true, async ({ deps, clients, stop }) => {
    const reports: RunReport[] = [];
    const results: object[] = [];
    for (const client of clients) {
      const counts = new Map<string, ReplayCounts>();
      const work = {
        name: 'replay',
        schedule: { kind: 'on-request' as const },
        run: async (context: Parameters<typeof replayQuarantine>[0]) => {
          for (const stream of chosen)
            counts.set(stream.name, await replayQuarantine(withColumnComparison(context), stream));
          // Packages have no stored page to decode again: pull-parcels asks for them once more.
          const parcels = name === undefined ? await replayParcels(context) : 0;
          if (parcels > 0 && !options.json)
            print(`${client.key} pull-parcels: looks up ${parcels} ${parcels === 1 ? 'shipment' : 'shipments'} again`);
        },
      };
      const report = await runWork(deps, work, client, 'manual', stop);
      const error = describeEnd(report);
      if (error !== null && !options.json) print(`${client.key}: ${error}`);
      for (const [stream, { released, kept }] of counts)
        if (!options.json) print(`${client.key} ${stream}: ${released} released, ${kept} kept`);
      const streamCounts = Object.fromEntries(counts);
      results.push({ client: client.key, status: report.status, ...(error ? { error } : {}), streams: streamCounts });
      reports.push(report);
    }
    if (options.json) print(JSON.stringify(results, null, 2));
    return exitCodeFor(reports);
  });
}
