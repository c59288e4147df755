import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longest, longest first. Begun last, each would keep the whole run waiting for it
 * alone.
 */
const longest = [
  'fleet',
  'outage',
  'hostile-erp',
  'hostile-service',
  'push',
  'campaign',
  'package',
  'track-trace',
  'hostile-input',
  'status-page',
  'restart',
  'fuzz',
  'plans',
  'worker',
  'doctor',
  'reconcile',
  'isolation',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId }: TestSpecification) => {
      const found = longest.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return found === -1 ? longest.length : found;
    };
    return sorted.toSorted((one, other) => place(one) - place(other));
  }
}

export default defineConfig({
  test: {
    // Most of the time is spent waiting for processes and leases: five at a time, also on a machine
    // of two cores.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    // Tests make much garbage at once: fewer, larger collections cost less.
    execArgv: ['--max-semi-space-size=64'],
    projects: [
      { test: { name: 'architecture', include: ['test/architecture.test.ts'] } },
      // No time limits but against what hangs: a busy machine may be many times slower than this
      // one.
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          testTimeout: 300_000,
          isolate: false,
        },
      },
      // What `npm test` runs against a Postgres and processes of its own, and what
      // `npm run test:full` adds.
      servers('integration', ['test/integration/**/*.test.ts', 'test/e2e/*.test.ts']),
      servers('full', ['test/load/*.test.ts', 'test/e2e/*/*.test.ts']),
    ],
  },
});

/** Returns a project whose files share one set of servers for the whole run. */
function servers(name: string, include: string[]) {
  const globalSetup = ['test/helpers/global-setup.ts'];
  // Files of one worker share what they import: a third of the CPU time went into loading it again.
  return {
    test: {
      name,
      include,
      globalSetup,
      testTimeout: 600_000,
      hookTimeout: 600_000,
      isolate: false,
    },
  };
}
