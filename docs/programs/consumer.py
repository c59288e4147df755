# Orders once and waits for the outcome: DATABASE_URL=… python3 consumer.py SO-1001 (docs/erp.md)
import json
import os
import sys
import time

import psycopg

if not os.environ.get("DATABASE_URL"):
    sys.exit("Set DATABASE_URL to the URL of the database")
reference = sys.argv[1] if len(sys.argv) > 1 else None
payload = {
    "externalOrderNumber": reference,
    "orderType": "B2C",
    "locale": "nl-NL",
    "items": [{"sku": "MUG-BLUE", "quantity": 1}],
    "deliveryAddress": {"lastName": "de Vries", "street1": "Keizersgracht 12", "postcode": "1015CJ", "countryCode": "NL"},
}


def order(db):
    with db.transaction():
        if db.execute("select from shop.orders where reference = %s", [reference]).rowcount == 0:
            (row_id,) = db.execute(
                "insert into fulfilment.outbox (kind, reference, payload) values ('order.create', %s, %s) returning id",
                [reference, json.dumps(payload)],
            ).fetchone()
            db.execute("insert into shop.orders (outbox_id, reference) values (%s, %s)", [row_id, reference])


def read_changes(db):
    with db.transaction():
        rows = db.execute("select entity, id from fulfilment.consume_changes('shop', 500)").fetchall()
        for entity, row_id in rows:
            if entity == "outbox":
                db.execute(
                    "update shop.orders s set status = o.status, problem = o.last_error"
                    " from fulfilment.outbox o where o.id = %s and s.outbox_id = o.id",
                    [row_id],
                )
        return len(rows)


def follow(db):
    db.execute("listen fulfilment_changes")
    db.execute("select fulfilment.start_consumer('shop')")
    if reference:
        order(db)
    while True:
        while read_changes(db) == 500:
            pass
        row = db.execute("select status, problem from shop.orders where reference = %s", [reference]).fetchone()
        if row and row[0] in ("done", "dead", "cancelled"):
            return row
        for _ in db.notifies(timeout=10, stop_after=1):
            pass


while True:
    try:
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
            status, problem = follow(db)
            print(f"{reference} is {status}" + (f": {problem}" if problem else ""))
            sys.exit(0 if status == "done" else 1)
    except psycopg.OperationalError as error:
        print(f"{error}; connecting again", file=sys.stderr)
        time.sleep(1)
