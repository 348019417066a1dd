-- Plain Spark SQL with calls of table functions gives what the clauses give.
(select 'as_of' as form, f.id from {{ ref('order_rates_by_function') }} f
 left join {{ ref('orders_in_euros') }} c on f.id = c.id where f.rate is distinct from c.rate)
union all
(select 'deduplicate' as form, coalesce(f.id, c.id) as id from {{ ref('orders_once_by_function') }} f
 full join {{ ref('orders_once') }} c on f.id = c.id and f.ordered_at = c.ordered_at where f.id is null or c.id is null)
