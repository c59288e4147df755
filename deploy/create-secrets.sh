#!/bin/sh
# Makes the passwords that docker-compose.yml reads, in secrets/ of the current folder. Existing files stay as they are.
# Only you can enter the folder. The files themselves are readable, because each container reads them as a user of its own.
set -eu
mkdir -p secrets
chmod 700 secrets
cd secrets
umask 022

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
