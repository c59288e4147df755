-- oldest code: 0.1.0
-- online
--
-- Reconciliation asks for spans of days, and which rows came lately: without these it reads whole tables.
--
-- None of them can serve the check of a foreign key, which asks for rows whatever their day (0017 says why).
drop index concurrently if exists fulfilment.orders_by_day;
create index concurrently orders_by_day on fulfilment.orders (client, ordered_on) where ordered_on is not null;
drop index concurrently if exists fulfilment.return_items_by_day;
create index concurrently return_items_by_day on fulfilment.return_items (client, processed_on)
  where processed_on is not null;
-- Rows stand in the order in which they came, more or less, so that a summary for every span of pages does.
drop index concurrently if exists fulfilment.shipments_by_arrival;
create index concurrently shipments_by_arrival on fulfilment.shipments using brin (first_seen_at);
