"""The two ways to fulfilment-sync, behind the same functions.

In the section `fulfilment` of trytond.conf, `api` is the one switch. Without
it, the schema `fulfilment` is in the database of Tryton, and each function
works in the transaction of Tryton. With it, the functions call the API.
"""
import json
import urllib.error
import urllib.parse
import urllib.request

from trytond import backend
from trytond.config import config
from trytond.exceptions import UserError
from trytond.transaction import Transaction

CONSUMER = 'tryton'
CHANGES = 500
TIMEOUT_SECONDS = 30

# The API is asked for something that it will never do.
REFUSALS = {400, 409, 413, 422}
# Another transaction has the same rows, or the API cannot answer now.
TRY_LATER = (backend.DatabaseOperationalError, urllib.error.HTTPError)

# Rows that belong to a row: member, table, and column that names the row.
PARTS = {
    'orders': [('items', 'order_items', 'order_id')],
    'shipments': [
        ('items', 'shipment_items', 'shipment_id'),
        ('parcels', 'parcel_overview', 'shipment_id')],
    'inbounds': [('items', 'inbound_items', 'inbound_id')],
    'inbound_packing_slips': [
        ('items', 'inbound_packing_slip_items', 'inbound_packing_slip_id')],
    }


class NotYetStored(Exception):
    """What a change refers to, which is not stored yet: try it later."""


class Refused(UserError):
    """The API does not take a request; the message says why."""


def setting(name, default=None):
    """Returns an option of the section `fulfilment` of trytond.conf."""
    return config.get('fulfilment', name, default=default)


def uses_api():
    """Returns whether fulfilment-sync has another database."""
    return bool(setting('api'))


def insert(kind, reference, payload, key):
    """Asks the warehouse for something, and returns the id of the row."""
    if uses_api():
        row = {'kind': kind, 'reference': reference, 'payload': payload}
        return _call('/v1/outbox', row, key)['id']

    row, = _query(
        'insert into fulfilment.outbox (client, kind, reference, payload)'
        ' values (%s, %s, %s, %s) returning id',
        _client(), kind, reference, json.dumps(payload))
    return row['id']


def replace(outbox_id, kind, reference, payload):
    """Corrects a dead row, which is then sent again in its place."""
    if uses_api():
        row = {'kind': kind, 'reference': reference, 'payload': payload}
        _call('/v1/outbox/%s/replace' % outbox_id, row)
    else:
        _query(
            'select from fulfilment.outbox_replace(%s, %s)',
            outbox_id, json.dumps(payload))


def cancel(outbox_id):
    """Takes a dead or pending row out: it is never sent."""
    if uses_api():
        _call('/v1/outbox/%s/cancel' % outbox_id, {})
    else:
        _query('select from fulfilment.outbox_cancel(%s)', outbox_id)


def changes(after):
    """Returns the next entries of the feed, the place, and whether more wait.

    In the same database, the consumer keeps the place, and moves it when the
    transaction commits. With the API, the caller keeps it.
    """
    if uses_api():
        found = _call('/v1/changes?after=%s&limit=%s' % (after, CHANGES))
        return found['changes'], found['next'], found['has_more']

    _query('select fulfilment.start_consumer(%s, 0)', CONSUMER)
    entries = _query(
        'select client, entity, id, key, changed_columns'
        ' from fulfilment.consume_changes(%s, %s)', CONSUMER, CHANGES)
    own = [entry for entry in entries if entry['client'] == _client()]
    return own, after, len(entries) == CHANGES


def read(entity, key):
    """Returns a row of the feed with its parts, or None."""
    if uses_api():
        return _call('/v1/%s/%s' % (entity, urllib.parse.quote(key, safe='')))

    if entity == 'stock_levels':
        rows = _rows(entity, 'sku', key)
    else:
        rows = _rows(entity, 'id', int(key))
    return rows[0] if rows else None


def read_order(number):
    """Returns the newest order with a number, or None."""
    if uses_api():
        found = _call('/v1/orders?number=%s' % urllib.parse.quote(number))
        return next(iter(found['orders']), None)

    rows = _rows('orders', 'external_order_number', number)
    return max(rows, key=lambda row: row['id'], default=None)


def watch_stock(sku):
    """Asks the workers to read the stock of an article."""
    if uses_api():
        name = urllib.parse.quote(sku, safe='')
        _call('/v1/stock_watch/%s' % name, method='PUT')
    else:
        Transaction().connection.cursor().execute(
            'insert into fulfilment.stock_watch (client, sku)'
            ' values (%s, %s) on conflict do nothing', [_client(), sku])


def _client():
    return setting('client', default='default')


def _rows(table, column, value):
    """Returns rows of a table as the API returns them, with their parts."""
    found = _query(
        'select to_jsonb(t) as row from fulfilment.%s t'
        ' where t.client = %%s and t.%s = %%s' % (table, column),
        _client(), value)
    rows = [entry['row'] for entry in found]

    for row in rows:
        for member, part, parent in PARTS.get(table, []):
            row[member] = _rows(part, parent, row['id'])
    return rows


def _query(text, *values):
    """Returns the rows of a statement as dictionaries."""
    cursor = Transaction().connection.cursor()
    cursor.execute(text, values)
    names = [column[0] for column in cursor.description]

    return [dict(zip(names, row)) for row in cursor.fetchall()]


def _call(path, body=None, key=None, method=None):
    """Calls the API, and returns its answer; None if there is no such row."""
    headers = {'Authorization': 'Bearer %s' % setting('token')}
    data = None

    if body is not None:
        data = json.dumps(body).encode()
        headers['Content-Type'] = 'application/json'
    if key is not None:
        headers['Idempotency-Key'] = key

    request = urllib.request.Request(
        setting('api') + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(
                request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404 and body is None:
            return None
        if error.code in REFUSALS:
            problem = json.load(error)
            raise Refused('; '.join(
                    problem.get('problems') or [problem['detail']]))
        raise
