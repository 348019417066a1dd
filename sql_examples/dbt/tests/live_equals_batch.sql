-- The live stream and the batch join give each order the same rate.
select l.id, l.rate as live, b.rate as batch
from {{ ref('orders_live') }} l
full join {{ ref('orders_in_euros') }} b on l.id = b.id
where l.rate is distinct from b.rate
