#!/bin/sh
# Runs once, when docker-compose.yml creates its database: a role of its own for the worker, which owns the database and is no
# superuser. It may create roles, so that `migrate` can create those of the ERP.
set -eu
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
\set password `cat "$FULFILMENT_PASSWORD_FILE"`
create role fulfilment login createrole password :'password';
create database erp owner fulfilment;
SQL
