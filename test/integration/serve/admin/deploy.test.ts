import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const admin = useAdmin(database);
const read = (name: string) =>
  readFileSync(new URL(`../../../../${name}`, import.meta.url), 'utf8');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string };
}
const { groups } = parse(read('deploy/prometheus-alerts.yml')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(read('deploy/grafana-dashboard.json')) as {
  panels: { title: string; targets?: { expr: string }[] }[];
};
const panels = dashboard.panels.filter(({ targets }) => targets !== undefined);

/** Returns the metrics of an expression, each with the labels that it selects by. */
function parseMetrics(expr: string): { name: string; labels: string[] }[] {
  return [...expr.matchAll(/\b((?:fulfilment|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)].map(
    ([, name = '', selector = '']) => ({
      name,
      labels: [...selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
    }),
  );
}

test('alerts and dashboard name only metrics and labels that exist', async () => {
  const { metrics } = await admin();
  const registry = await metrics.read(async (all) => all);
  const known = await registry.getMetricsAsJSON();
  const findMetric = (name: string) =>
    known.find(
      (metric) => metric.name === name.replace(/_(bucket|count|sum)$/, '') || metric.name === name,
    );
  const labelNames = (name: string) => {
    const metric = registry.getSingleMetric(findMetric(name)?.name ?? '') as unknown as
      | { labelNames?: string[] }
      | undefined;
    return metric?.labelNames ?? [];
  };
  const expressions = [
    ...rules.map(({ expr }) => expr),
    ...panels.flatMap(({ targets }) => targets?.map(({ expr }) => expr) ?? []),
  ];
  expect(expressions.length).toBeGreaterThan(25);
  const used = expressions.flatMap(parseMetrics);
  expect(used.length).toBeGreaterThan(25);
  expect(used.filter(({ name }) => findMetric(name) === undefined)).toEqual([]);
  expect(
    used.filter(({ name, labels }) => labels.some((label) => !labelNames(name).includes(label))),
  ).toEqual([]);
});
