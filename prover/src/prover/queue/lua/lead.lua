-- One process of all has a role: it takes it when it is free, and keeps it while it says so in time. After a restart or a
-- failover the role is free, or for what was left of its time whose it was at the last snapshot.
local key = root .. 'role:' .. args.role
local holder = call('GET', key)
if args.release then
    if holder == args.owner then write_lightly('DEL', key) end
    return reply({done = true})
end
if holder and holder ~= args.owner then return reply({done = false}) end
go_on_when_full()
write_lightly('SET', key, args.owner, 'PX', args.hold_ms)
return reply({done = true})
