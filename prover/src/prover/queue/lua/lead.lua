-- One process at a time holds a role: it acquires a free one, and keeps it while it renews it in time. After a restart
-- or a failover the role is free, or belongs for the rest of its time to its holder at the last snapshot.
local key = root .. 'role:' .. args.role
local holder = call('GET', key)
if args.release then
    if holder == args.owner then write_unreplicated('DEL', key) end
    return reply({done = true})
end
if holder and holder ~= args.owner then return reply({done = false}) end
allow_when_full()
write_unreplicated('SET', key, args.owner, 'PX', args.hold_ms)
return reply({done = true})
