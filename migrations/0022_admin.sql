-- oldest code: 0.1.0
--
-- The secret that signs the cookies of the admin pages, and rights that only the roles of the ERP need.

create table sync.admin_secrets (
  purpose text primary key,
  secret bytea not null,
  created_at timestamptz not null default now()
);
comment on table sync.admin_secrets is 'Random secrets that the workers share; delete a row to end all sessions';
comment on column sync.admin_secrets.purpose is 'What the secret signs';
comment on column sync.admin_secrets.secret is '32 random bytes';
comment on column sync.admin_secrets.created_at is 'When a worker created it';

revoke execute on function fulfilment.changes_since(bigint, integer) from public;
revoke execute on function fulfilment.outbox_schema(text) from public;
do $$
declare
  found name;
begin
  for found in select rolname from pg_roles where rolname in ('fulfilment_reader', 'fulfilment_writer') loop
    execute format('grant execute on function fulfilment.changes_since(bigint, integer) to %I', found);
    execute format('grant execute on function fulfilment.outbox_schema(text) to %I', found);
  end loop;
end
$$;
