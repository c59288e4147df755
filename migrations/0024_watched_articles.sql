-- oldest code: 0.1.0
--
-- The worker reads the watched articles from a table of its own. The role of the ERP may delete from fulfilment.stock_watch,
-- so it may also lock that table, and a lock of it would stop pull-stock.

create table sync.watched_articles (
  client text not null,
  sku text not null,
  primary key (client, sku)
);
comment on table sync.watched_articles is 'Copy of fulfilment.stock_watch, kept by triggers; the roles of the ERP cannot lock it';
comment on column sync.watched_articles.client is 'Client key';
comment on column sync.watched_articles.sku is 'Article';

create function sync.copy_watched() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op in ('DELETE', 'UPDATE') then
    delete from sync.watched_articles a using gone g where a.client = g.client and a.sku = g.sku;
  end if;
  if tg_op in ('INSERT', 'UPDATE') then
    insert into sync.watched_articles (client, sku) select n.client, n.sku from added n on conflict do nothing;
  end if;
  return null;
end
$$;
create trigger stock_watch_added after insert on fulfilment.stock_watch
  referencing new table as added for each statement execute function sync.copy_watched();
create trigger stock_watch_gone after delete on fulfilment.stock_watch
  referencing old table as gone for each statement execute function sync.copy_watched();
create trigger stock_watch_changed after update on fulfilment.stock_watch
  referencing old table as gone new table as added for each statement execute function sync.copy_watched();

create function sync.forget_watched() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from sync.watched_articles;
  return null;
end
$$;
create trigger stock_watch_emptied after truncate on fulfilment.stock_watch
  for each statement execute function sync.forget_watched();

insert into sync.watched_articles (client, sku) select client, sku from fulfilment.stock_watch;
