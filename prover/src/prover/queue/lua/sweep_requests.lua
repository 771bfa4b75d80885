-- Ends waiting requests that are older than the limit, and removes queue entries without a waiting job.
local changed = 0
for _, queue in ipairs(QUEUES) do changed = changed + expire_older(queue, args.request_ms) end
return reply({changed = changed})
