"""Follows the feed: what the warehouse did becomes documents of Tryton.

A change is stored in the transaction that reads it from the feed. Then each
is handled in a transaction of its own, so that one that cannot be booked
stops no other.
"""
import logging
import time

from trytond import backend
from trytond.config import config
from trytond.model import ModelSingleton, ModelSQL, ModelView, fields
from trytond.pool import Pool
from trytond.pyson import Eval
from trytond.transaction import Transaction

from . import channel

logger = logging.getLogger(__name__)

# Model and method that handle a change of an entity of the feed.
HANDLERS = {
    'outbox': ('fulfilment.request', 'settle'),
    'shipments': ('stock.shipment.out', 'book_shipment'),
    'parcels': ('stock.shipment.out', 'store_tracking'),
    'order_items': ('sale.sale', 'see_item'),
    'return_items': ('stock.shipment.out.return', 'book_return'),
    'inbounds': ('stock.shipment.in', 'book_inbound'),
    'inbound_packing_slips': ('purchase.purchase', 'close_slip'),
    'stock_levels': ('fulfilment.stock', 'store_level'),
    }


class Place(ModelSingleton, ModelSQL):
    "Place in the Feed"
    __name__ = 'fulfilment.place'

    seq = fields.BigInteger("Last Entry that Was Read")


class Change(ModelSQL, ModelView):
    "Change of the Warehouse"
    __name__ = 'fulfilment.change'
    _rec_name = 'entity'

    entity = fields.Char("Entity", required=True, readonly=True)
    key = fields.Char("Key", required=True, readonly=True)
    failed = fields.Boolean("Failed", readonly=True)
    error = fields.Text("Error", readonly=True)

    @classmethod
    def __setup__(cls):
        super().__setup__()
        cls._order = [('id', 'ASC')]
        cls._buttons.update({
                'try_again': {
                    'invisible': ~Eval('failed'),
                    'depends': ['failed'],
                    },
                })

    @classmethod
    @ModelView.button
    def try_again(cls, changes):
        """Lets the next run handle changes that failed."""
        cls.write(changes, {'failed': False, 'error': None})

    @classmethod
    def follow(cls):
        """Sends what is not sent, reads the feed to its end, and books it."""
        Request = Pool().get('fulfilment.request')
        companies = Pool().get('company.company').search([], limit=1)
        if not companies:
            return

        with Transaction().set_context(
                company=companies[0].id,
                _skip_warnings=True, _check_access=False):
            for request_id in in_transaction(Request.list_unsent):
                in_transaction(Request.send_pending, request_id)
            while in_transaction(cls.receive):
                pass
            for change_id in in_transaction(cls.list_open):
                try:
                    in_transaction(cls.handle, change_id)
                except channel.TRY_LATER:
                    logger.warning("change %s waits", change_id)

    @classmethod
    def receive(cls):
        """Stores the next entries; returns whether the feed has more."""
        place = Pool().get('fulfilment.place')(1)
        entries, seq, has_more = channel.changes(place.seq or 0)
        if seq != place.seq:
            place.seq = seq
            place.save()

        subjects = dict.fromkeys(
            (entry['entity'], entry['key'] or str(entry['id']))
            for entry in entries if cls.concerns(entry))
        cls.create([
                {'entity': entity, 'key': key} for entity, key in subjects])
        return has_more

    @classmethod
    def concerns(cls, entry):
        """Returns whether an entry of the feed may need a document."""
        if entry['entity'] == 'order_items':
            return 'quantity' in (entry['changed_columns'] or [])
        return entry['entity'] in HANDLERS

    @classmethod
    def list_open(cls):
        """Returns the ids of the changes to handle, oldest first."""
        return [c.id for c in cls.search([('failed', '=', False)])]

    @classmethod
    def handle(cls, change_id):
        """Books a change, or stores why it cannot be booked."""
        found = cls.search([('id', '=', change_id)])
        if not found:
            return

        change, = found
        cls.lock([change])
        model, method = HANDLERS[change.entity]
        try:
            getattr(Pool().get(model), method)(change.key)
        except channel.NotYetStored as missing:
            # The next run tries it again.
            change.keep(False, "Waits for %s" % missing)
        except (backend.DatabaseOperationalError, OSError):
            # Nothing is wrong with the change.
            raise
        except Exception as error:
            logger.warning("change %s failed", change_id, exc_info=True)
            change.keep(True, getattr(error, 'message', None) or repr(error))
        else:
            cls.delete([change])

    def keep(self, failed, error):
        """Undoes what was booked of the change, and stores why."""
        Transaction().rollback()
        if self.error != error:
            self.write([self], {'failed': failed, 'error': error})


def in_transaction(work, *args):
    """Does some work in a transaction of its own.

    Another transaction may change the same rows: then it is done again. What
    it puts into the queue runs after the transaction of the caller.
    """
    retry = config.getint('database', 'retry')
    for count in range(retry, -1, -1):
        with Transaction().new_transaction() as transaction:
            try:
                result = work(*args)
                transaction.commit()
                return result
            except backend.DatabaseOperationalError:
                transaction.rollback()
                if not count:
                    raise
        time.sleep(0.02 * (retry - count + 1))
