import { z } from 'zod';

/**
 * Ways to differ from what docs/assumptions.md assumes. Tests of `sandbox verify`, and teams that know their service, set
 * them.
 */
export const unlikeSchema = z.strictObject({
  /**
   * Methods and paths of operations by their names, such as `{"v3.orders.update": "PUT /v3/orders/{id}"}`. The assumed
   * route of such an operation does not exist.
   */
  paths: z
    .record(
      z.string(),
      z
        .string()
        .regex(/^(GET|POST|PUT|PATCH|DELETE) \/[^?#\s]*$/, 'must be a method and a path, such as PUT /v3/orders/{id}'),
    )
    .default({}),
  /** The only position of `included` in requests. */
  requestIncluded: z.enum(['either', 'inside', 'top']).default('either'),
  /** What `returnItems` and `inbounds` do with `page[size]`. */
  pageSize: z.enum(['taken', 'refused', 'required']).default('taken'),
  /** The only attributes that cancel an order item; null: `quantity` 0. */
  cancelAttributes: z.record(z.string(), z.unknown()).nullable().default(null),
});
export type Unlike = z.infer<typeof unlikeSchema>;
