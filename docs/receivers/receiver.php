<?php
// Receives events: SECRET=whsec_… php -S 127.0.0.1:8099 receiver.php
if (!getenv('SECRET')) {
    error_log('Set SECRET to the secret of the sender');
    http_response_code(500);
    exit;
}
$key = base64_decode(substr(getenv('SECRET'), strlen('whsec_')));
$body = file_get_contents('php://input');
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$time = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '0';
$expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$time.$body", $key, true));
$valid = abs(time() - (int) $time) <= 300;
$signed = false;
foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
    $signed = hash_equals($expected, $given) || $signed;
}
if (!$valid || !$signed) {
    http_response_code(401);
    exit;
}
// Keep the ids in your database, in the transaction that does the work, and drop those that you have seen.
error_log(json_decode($body)->type . ' ' . $id);
http_response_code(204);
