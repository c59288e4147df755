#!/bin/sh
# Makes what docker-compose.yml reads: passwords in secrets/, and settings/worker.env, in the current folder. Existing files stay
# as they are. Only you can enter secrets/. The files themselves are readable, because each container reads them as a user of its own.
set -eu
mkdir -p secrets settings
chmod 700 secrets
umask 022
cd secrets

# Writes its second argument to the file, unless there is one.
keep() {
  [ -e "$1" ] || printf '%s' "$2" > "$1"
}
random() {
  od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

for name in postgres-password fulfilment-password redis-password admin-token admin-viewer-token; do
  keep "$name" "$(random)"
done
keep database-url "postgres://fulfilment:$(cat fulfilment-password)@postgres:5432/erp"
keep redis-url "redis://:$(cat redis-password)@redis:6379"
keep redis.conf "requirepass $(cat redis-password)
"
# Of the sandbox. For the service: replace it.
keep warehouse-password default
# Empty: problems are not posted. The receiver checks the signatures of posts with the second file.
keep alert-webhook-url ''
keep alert-webhook-secret "whsec_$(head -c 24 /dev/urandom | base64)"
# Of the sandbox. For the service: replace base URL and user name. For several clients: WAREHOUSE_CLIENTS_FILE=/settings/clients.json
# in place of these three lines.
cd ../settings
keep worker.env 'WAREHOUSE_BASE_URL=http://sandbox:8090
WAREHOUSE_USERNAME=default
WAREHOUSE_PASSWORD_FILE=/run/secrets/warehouse-password
'
