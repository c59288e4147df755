-- oldest code: 0.1.0
-- online

-- The timeline of an order finds a parcel by its code, and announced returns by their shipment.
drop index concurrently if exists fulfilment.parcels_by_code;
create index concurrently parcels_by_code on fulfilment.parcels (track_and_trace_code) where track_and_trace_code is not null;
drop index concurrently if exists fulfilment.return_merchandise_authorizations_by_shipment;
create index concurrently return_merchandise_authorizations_by_shipment on fulfilment.return_merchandise_authorizations (client, shipment_id) where shipment_id is not null;
